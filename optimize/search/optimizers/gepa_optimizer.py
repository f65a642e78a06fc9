"""GEPA: rewrites the prompt of an agent from the feedback on a few answers, and keeps it if they become better.

Agrawal et al. 2025 (arXiv 2507.19457), as implemented in DSPy: a candidate that is strictly better on its minibatch is
scored on all validation questions; parents are drawn from the candidates that are best on at least one of them.

    GepaOptimizer(minibatch_size=6).search(student, objective, context, report)      # SearchOutcome(reflections=52, …)
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mas.runtime.errors import UserError
from optimize.search.optimizer import ReportProposal, SearchContext, SearchCost, SearchOutcome

if TYPE_CHECKING:
    from optimize.search.student import Objective, Student

CHOICES = {
    "component_selector": ("round_robin", "all"),
    "parent_selector": ("pareto", "current_best", "epsilon_greedy", "top_k_pareto"),
    "acceptance": ("strict_improvement", "improvement_or_equal"),
}


@dataclass
class GepaOptimizer:
    """The fields are the keys of `conf/optimizer/gepa.yaml`."""

    name: str = "gepa"
    minibatch_size: int = 6
    component_selector: str = "all"
    parents: int = 1
    proposals: int = 1
    max_kept: int | None = None
    parent_selector: str = "pareto"
    acceptance: str = "strict_improvement"
    use_merge: bool = True
    skip_perfect_score: bool = True
    max_instruction_chars: int | None = 8000
    needs_reflection: bool = True

    def check(self) -> None:
        """Check the settings.

        Raises:
            UserError: a setting is out of range.
        """
        for option in ("minibatch_size", "parents", "proposals"):
            if getattr(self, option) < 1:
                raise UserError(f"optimizer.{option} is {getattr(self, option)}; expected a whole number from 1 on.")
        for option, choices in CHOICES.items():
            if getattr(self, option) not in choices:
                raise UserError(
                    f"There is no optimizer.{option} '{getattr(self, option)}'; choose {' or '.join(choices)}."
                )
        for option in ("max_kept", "max_instruction_chars"):
            if (limit := getattr(self, option)) is not None and limit < 1:
                raise UserError(
                    f"optimizer.{option} is {limit}; expected a whole number from 1 on, or null for no limit."
                )

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Assume that no proposal is scored on validation, which leaves most of the budget to reflections."""
        answers = (1 if self._makes_several else 2) * min(self.minibatch_size, n_train)
        proposals = math.ceil(max(0, max_metric_calls - n_val) / answers)
        return SearchCost(max_metric_calls, proposals * (n_agents if self.component_selector == "all" else 1))

    @property
    def _makes_several(self) -> bool:
        """Return whether a round has several proposals; then a parent's answers are mostly known, and free."""
        return self.parents * self.proposals > 1

    def search(
        self, student: "Student", objective: "Objective", context: SearchContext, report: ReportProposal
    ) -> SearchOutcome:
        """Search with GEPA. Reflection requests are logged and paid in the caller's sample context.

        The parent's scoring on validation counts as metric calls, also where it is answered from memory.

        Raises:
            Exception: what `report` raised, or a defect of the harness.
        """
        import dspy
        from gepa.strategies.proposal_sampling import PxNSampling

        from optimize.search.dspy_compat import run_isolated, to_examples
        from optimize.search.optimizers.gepa_events import GepaEvents
        from optimize.search.optimizers.prompt_rewriter import PromptRewriter

        events = GepaEvents(student, objective, context, report, self.max_kept)
        rewriter = PromptRewriter(
            student.initial_prompts, context.get_stop_reason, self.max_instruction_chars, objective.labels.names
        )

        def is_over(state: object) -> bool:
            return bool(context.get_stop_reason() or rewriter.failure or events.failure)

        train, val = to_examples(objective.train_ids), to_examples(objective.val_ids)

        def compile_student() -> None:
            optimizer = dspy.GEPA(
                metric=objective,
                # gepa counts repeated answers as well; the budget, which counts each once, ends the search
                max_metric_calls=context.metric_calls * (2 if self._makes_several else 1),
                reflection_minibatch_size=min(self.minibatch_size, len(objective.train_ids)),
                reflection_lm=context.reflection_lm,
                instruction_proposer=rewriter,
                component_selector=self.component_selector,
                skip_perfect_score=self.skip_perfect_score,
                use_merge=self.use_merge,
                num_threads=context.concurrency,
                warn_on_score_mismatch=False,
                seed=context.seed,
                candidate_selection_strategy=self.parent_selector,
                gepa_kwargs={
                    "callbacks": [events],
                    "stop_callbacks": [is_over],
                    "sampling_strategy": PxNSampling(self.parents, self.proposals),
                    "selection_strategy": events,
                    "acceptance_criterion": self.acceptance,
                },
            )
            optimizer.compile(student, trainset=train, valset=val)

        run_isolated(compile_student)
        events.check()
        student.trials.check()
        if rewriter.service_failure:
            student.trials.stop(rewriter.service_failure)
        return SearchOutcome(rewriter.requests, rewriter.unparsable)
