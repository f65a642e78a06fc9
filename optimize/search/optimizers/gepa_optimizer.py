"""GEPA: reads the feedback on a few answers, rewrites the prompt of an agent, and keeps what is better on them.

Agrawal et al. 2025 (arXiv 2507.19457), as DSPy has it: a candidate that is strictly better on its minibatch is scored
on all validation questions; parents are drawn from the candidates that are best on at least one of them.

    GepaOptimizer(minibatch_size=6).search(search)      # SearchOutcome(reflections=52, unparsable=1)
"""

import math
from dataclasses import dataclass
from typing import Any

from mas.runtime.errors import UserError
from optimize.search.optimizer import Search, SearchCost, SearchOutcome

SELECTORS = ("round_robin", "all")


@dataclass
class GepaOptimizer:
    """Its fields are the keys of `conf/optimizer/gepa.yaml`."""

    name: str = "gepa"
    minibatch_size: int = 6
    component_selector: str = "all"
    use_merge: bool = True
    skip_perfect_score: bool = True
    max_instruction_chars: int | None = 8000
    needs_reflection: bool = True

    def check(self) -> None:
        """
        Raises:
            UserError: a setting makes no sense.
        """
        if self.minibatch_size < 1:
            raise UserError(f"optimizer.minibatch_size is {self.minibatch_size}; expected a whole number from 1 on.")
        if self.component_selector not in SELECTORS:
            raise UserError(
                f"There is no optimizer.component_selector '{self.component_selector}'; "
                f"choose {' or '.join(SELECTORS)}."
            )
        if self.max_instruction_chars is not None and self.max_instruction_chars < 1:
            raise UserError(
                f"optimizer.max_instruction_chars is {self.max_instruction_chars}; expected a whole number from 1 on, "
                "or null for no limit."
            )

    def cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """If no proposal is good enough to be scored on validation, which leaves the most budget for reflections."""
        proposals = math.ceil(max(0, max_metric_calls - n_val) / (2 * min(self.minibatch_size, n_train)))
        return SearchCost(max_metric_calls, proposals * (n_agents if self.component_selector == "all" else 1))

    def search(self, search: Search) -> SearchOutcome:
        """To be called with the reflection's own question at work: reflection requests are logged and paid on it.

        The parent's scoring on validation counts against `max_metric_calls`, also where it is answered from memory.

        Raises:
            what `search.proposed` raises, or what broke in the answering.
        """
        from optimize.search.dspy_compat import run_isolated
        from optimize.search.optimizers.gepa_events import GepaEvents
        from optimize.search.optimizers.rewriting import PromptRewriter

        events = GepaEvents(search)
        rewriting = PromptRewriter(search.parent.prompts, search.stopped, self.max_instruction_chars)

        def stop(state: Any) -> bool:
            return bool(search.stopped() or rewriting.failed or events.failure)

        run_isolated(lambda: self._compile(search, rewriting, {"callbacks": [events], "stop_callbacks": [stop]}))
        events.check()
        search.student.trials.check()
        if rewriting.fault:
            search.student.trials.end(rewriting.fault)
        return SearchOutcome(rewriting.asked, rewriting.unparsable)

    def _compile(self, search: Search, rewriting: Any, gepa_kwargs: dict[str, Any]) -> None:
        import dspy

        def samples(ids: Any) -> list[Any]:
            return [dspy.Example(sample_id=each).with_inputs("sample_id") for each in ids]

        optimizer = dspy.GEPA(
            metric=search.metric,
            max_metric_calls=search.max_metric_calls,
            reflection_minibatch_size=min(self.minibatch_size, len(search.train_ids)),
            reflection_lm=search.reflection_lm,
            instruction_proposer=rewriting,
            component_selector=self.component_selector,
            skip_perfect_score=self.skip_perfect_score,
            use_merge=self.use_merge,
            num_threads=search.threads,
            warn_on_score_mismatch=False,
            seed=search.seed,
            gepa_kwargs=gepa_kwargs,
        )
        optimizer.compile(search.student, trainset=samples(search.train_ids), valset=samples(search.val_ids))
