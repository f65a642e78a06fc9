"""GEPA: rewrites the prompt of an agent from the feedback on a few answers, and keeps it if they become better.

Agrawal et al. 2025 (arXiv 2507.19457), as implemented in DSPy: a candidate that is strictly better on its minibatch is
scored on all validation questions; parents are drawn from the candidates that are best on at least one of them.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from eval.config.evaluation import require
from mas.prompt_sets.prompt_set import PromptSet
from optimize.search.optimizer import PARENT, Decision, SearchCost, SearchOutcome, SearchTask, check_settings

if TYPE_CHECKING:
    import dspy

Event = Mapping[str, Any]


@dataclass
class GepaOptimizer:
    """The fields are the keys of `conf/optimizer/gepa.yaml`."""

    name: str = "gepa"
    minibatch_size: int = 6
    component_selector: str = "all"
    needs_reflection: bool = True

    def check(self) -> None:
        check_settings(self, {"minibatch_size": 1})
        selector = self.component_selector
        require(selector in ("round_robin", "all"), "optimizer.component_selector", selector, "round_robin or all")

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Assume that no proposal is scored on validation, which leaves most of the budget to reflections."""
        proposals = math.ceil(max(0, max_metric_calls - n_val) / (2 * min(self.minibatch_size, n_train)))
        return SearchCost(max_metric_calls, proposals * (n_agents if self.component_selector == "all" else 1))

    def search(self, task: SearchTask) -> SearchOutcome:
        import dspy

        from optimize.search.dspy_compat import run_isolated, to_examples
        from optimize.search.optimizers.prompt_rewriter import PromptRewriter

        objective, events = task.objective, GepaEvents(task)
        rewriter = PromptRewriter(task)

        def is_over(state: object) -> bool:
            return bool(task.get_stop_reason() or rewriter.failure or events.failure)

        def compile_student() -> None:
            optimizer = dspy.GEPA(
                metric=objective,
                max_metric_calls=task.metric_calls,
                reflection_minibatch_size=min(self.minibatch_size, len(objective.train_ids)),
                reflection_lm=task.reflection_lm,
                instruction_proposer=rewriter,
                component_selector=self.component_selector,
                num_threads=task.concurrency,
                seed=task.seed,
                gepa_kwargs={"callbacks": [events], "stop_callbacks": [is_over]},
                warn_on_score_mismatch=False,
            )
            train, val = to_examples(objective.train_ids), to_examples(objective.val_ids)
            optimizer.compile(task.student, trainset=train, valset=val)

        run_isolated(compile_student)
        if events.failure is not None:
            raise events.failure
        return rewriter.finish(task.student.trials)


class GepaEvents:
    """Callback of gepa that reports each candidate as a proposal. Used in the thread of the search.

    A round evaluates its parent on a minibatch, proposes texts, evaluates them on the same questions, and accepts or
    rejects them. A merge is evaluated on validation questions, where its parents' scores are known.
    """

    def __init__(self, task: SearchTask) -> None:
        self.failure: Exception | None = None  # the first one in a report
        self._task, self._parent = task, task.student.initial_prompts
        self._val_numbers = {sample_id: number for number, sample_id in enumerate(task.objective.val_ids)}
        self._ids = [PARENT]  # by gepa's number
        self._n_proposed = 0
        self._round: dict[str, Event] = {}  # what happened in this one

    def on_iteration_start(self, event: Event) -> None:
        self._round = {}

    def on_proposal_end(self, event: Event) -> None:
        self._round["texts"] = event

    def on_evaluation_end(self, event: Event) -> None:
        self._round["after" if event["candidate_idx"] is None else "before"] = event

    def on_merge_attempted(self, event: Event) -> None:
        self._round["merge"] = event

    def on_valset_evaluated(self, event: Event) -> None:
        self._round["val"] = event

    def on_iteration_end(self, event: Event) -> None:
        """Report the proposal, if there is one."""
        try:
            if "after" in self._round:
                self._propose(event["state"], event["proposal_accepted"])
        except Exception as error:  # noqa: BLE001  gepa would log it and go on; the search ends, and raises it
            self.failure = self.failure or error

    def _propose(self, state: Any, is_accepted: bool) -> None:
        before, after, val = (self._round.get(name) for name in ("before", "after", "val"))
        assert after is not None
        parents, candidates = after["parent_ids"], state.program_candidates
        if is_merge := len(parents) > 1:
            texts = dict(self._round["merge"]["merged_candidate"])
            numbers = [self._val_numbers[output.trial.record.sample_id] for output in after["outputs"]]
            scores = state.prog_candidate_val_subscores
            old = max(fmean(scores[parent][number] for number in numbers) for parent in parents)
        else:
            texts = {**candidates[parents[0]], **self._round["texts"]["new_instructions"]}
            old = fmean(before["scores"]) if before else 0.0
        new = fmean(after["scores"])
        self._n_proposed += 1
        candidate_id = f"c{self._n_proposed:03}"
        parent_ids = tuple(self._ids[number] for number in parents)
        decision: Decision = "rejected"
        how = "worse than the better parent" if is_merge else "no better"
        if is_accepted:
            decision, how = "accepted", "as good" if new == old else "better"
            self._ids.append(candidate_id)
        reason = f"{how} on its few questions ({old:.0%} → {new:.0%}){', and kept' if is_accepted else ''}"
        is_complete = all(_are_complete(each["outputs"]) for each in (before, after) if each)
        is_complete &= _are_complete(((val or {}).get("outputs_by_val_id") or {}).values())
        if not is_complete:
            decision, reason = "cut_off", self._task.describe_break()
        self._task.propose(
            self._build_prompts(texts),
            self._build_prompts(candidates[parents[0]]),
            candidate_id=candidate_id,
            decision=decision,
            reason=reason,
            parent_ids=parent_ids,
            origin="merge" if is_merge else "reflection",
            val_score=val["average_score"] if val and is_complete else None,
        )

    def _build_prompts(self, texts: Mapping[str, str]) -> PromptSet:
        return replace(self._parent, texts={**self._parent.texts, **texts}, edited=(), provenance={})


def _are_complete(outputs: "Iterable[dspy.Prediction | None]") -> bool:
    return all("trial" not in output or output.trial.completed for output in outputs if output is not None)
