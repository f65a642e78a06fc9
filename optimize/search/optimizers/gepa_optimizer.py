"""GEPA: rewrites the prompt of an agent from the feedback on a few answers, and keeps it if they become better.

Agrawal et al. 2025 (arXiv 2507.19457), as implemented in DSPy: a candidate that is strictly better on its minibatch is
scored on all validation questions; parents are drawn from the candidates that are best on at least one of them.

    GepaOptimizer(minibatch_size=6).search(student, objective, context, report)      # SearchOutcome(reflections=52, …)
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from eval.config.evaluation import require
from mas.runtime.errors import UserError
from optimize.search.optimizer import (
    PARENT,
    Decision,
    Proposal,
    ReportProposal,
    SearchContext,
    SearchCost,
    SearchOutcome,
    check_settings,
)

if TYPE_CHECKING:
    import dspy

    from optimize.search.student import Objective, Student

SELECTORS = ("round_robin", "all")
# Arguments of dspy.GEPA that `more` may set. The others are set by the harness or by DSPy, take an object, or send
# prompts and answers to places that the harness does not know.
ARGUMENTS = (
    *("add_format_failure_as_feedback", "candidate_selection_strategy", "failure_score", "max_merge_invocations"),
    *("perfect_score", "skip_perfect_score", "use_merge", "warn_on_score_mismatch"),
)

Event = Mapping[str, Any]
Handler = Callable[["GepaEvents", Event], None]


@dataclass
class GepaOptimizer:
    """The fields are the keys of `conf/optimizer/gepa.yaml`."""

    name: str = "gepa"
    minibatch_size: int = 6
    component_selector: str = "all"
    max_instruction_chars: int | None = 8000
    more: dict[str, Any] = field(default_factory=dict)
    needs_reflection: bool = True

    def check(self) -> None:
        check_settings(self, {"minibatch_size": 1, "max_instruction_chars": 1})
        selector, expected = self.component_selector, " or ".join(SELECTORS)
        require(selector in SELECTORS, "optimizer.component_selector", selector, expected)
        require(isinstance(self.more or {}, Mapping), "optimizer.more", self.more, "arguments with their values")
        if wrong := sorted(map(str, (self.more or {}).keys() - set(ARGUMENTS))):
            choice = f"choose from: {', '.join(ARGUMENTS)}"
            raise UserError(f"optimizer.more has {wrong[0]}, which cannot be set here; {choice}.")

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Assume that no proposal is scored on validation, which leaves most of the budget to reflections."""
        proposals = math.ceil(max(0, max_metric_calls - n_val) / (2 * min(self.minibatch_size, n_train)))
        return SearchCost(max_metric_calls, proposals * (n_agents if self.component_selector == "all" else 1))

    def search(
        self, student: "Student", objective: "Objective", context: SearchContext, report: ReportProposal
    ) -> SearchOutcome:
        """Search. Reflection requests are logged and paid in the caller's sample context."""
        import dspy

        from optimize.search.dspy_compat import run_isolated, to_examples
        from optimize.search.optimizers.prompt_rewriter import PromptRewriter

        events = GepaEvents(student, objective, context, report)
        rewriter = PromptRewriter(
            student.initial_prompts, context.get_stop_reason, self.max_instruction_chars, objective.labels.names
        )

        def is_over(state: object) -> bool:
            return bool(context.get_stop_reason() or rewriter.failure or events.failure)

        def compile_student() -> None:
            optimizer = dspy.GEPA(
                metric=objective,
                max_metric_calls=context.metric_calls,
                reflection_minibatch_size=min(self.minibatch_size, len(objective.train_ids)),
                reflection_lm=context.reflection_lm,
                instruction_proposer=rewriter,
                component_selector=self.component_selector,
                num_threads=context.concurrency,
                seed=context.seed,
                gepa_kwargs={"callbacks": [events], "stop_callbacks": [is_over]},
                **{"warn_on_score_mismatch": False, **(self.more or {})},
            )
            train, val = to_examples(objective.train_ids), to_examples(objective.val_ids)
            optimizer.compile(student, trainset=train, valset=val)

        run_isolated(compile_student)
        if events.failure is not None:
            raise events.failure
        return rewriter.finish(student.trials)


def _guarded(handler: Handler) -> Handler:
    """Keep what a handler raises as `failure`: gepa logs it and goes on."""

    @functools.wraps(handler)
    def call_handler(self: "GepaEvents", event: Event) -> None:
        try:
            handler(self, event)
        except Exception as error:  # noqa: BLE001  the search ends, and raises it
            self.failure = self.failure or error

    return call_handler


class GepaEvents:
    """Callback of gepa that reports each candidate as a proposal. Used in the thread of the search.

    A round evaluates its parent on a minibatch, proposes texts, evaluates them on the same questions, and accepts or
    rejects them. A merge is evaluated on validation questions, where its parents' scores are known.
    """

    def __init__(
        self, student: "Student", objective: "Objective", context: SearchContext, report: ReportProposal
    ) -> None:
        """Begin with no candidate but the parent."""
        self.failure: Exception | None = None  # the first one of a handler
        self._parent, self._context, self._report = student.initial_prompts, context, report
        self._budget = student.trials.budget
        self._val_numbers = {sample_id: number for number, sample_id in enumerate(objective.val_ids)}
        self._ids = [PARENT]  # by gepa's number
        self._n_proposed = 0
        self._new_texts: dict[str, str] = {}
        self._before = self._after = 0.0  # mean scores of a proposal's parent and its own on the minibatch

    @_guarded
    def on_iteration_start(self, event: Event) -> None:
        self._state, self._spend_before = event["state"], self._budget.spend()
        self._pending: Proposal | None = None
        self._is_minibatch_complete = self._is_val_complete = True
        self._val_score: float | None = None

    @_guarded
    def on_proposal_end(self, event: Event) -> None:
        self._new_texts = event["new_instructions"]

    @_guarded
    def on_evaluation_end(self, event: Event) -> None:
        parents = event["parent_ids"]
        self._is_minibatch_complete &= _are_complete(event["outputs"])
        if event["candidate_idx"] is not None:
            self._before = fmean(event["scores"])
            return
        self._after = fmean(event["scores"])
        if len(parents) > 1:
            numbers = [self._val_numbers[output.trial.record.sample_id] for output in event["outputs"]]
            scores = self._state.prog_candidate_val_subscores
            self._before = max(fmean(scores[parent][number] for number in numbers) for parent in parents)
        else:
            self._propose({**self._state.program_candidates[parents[0]], **self._new_texts}, parents, "reflection")

    @_guarded
    def on_merge_attempted(self, event: Event) -> None:
        self._propose(dict(event["merged_candidate"]), list(event["parent_ids"]), "merge")

    @_guarded
    def on_valset_evaluated(self, event: Event) -> None:
        self._val_score = event["average_score"]
        self._is_val_complete = _are_complete((event["outputs_by_val_id"] or {}).values())

    @_guarded
    def on_iteration_end(self, event: Event) -> None:
        """Report the proposal, if there is one."""
        if self._pending is None:
            return
        decision: Decision = "rejected"
        how = "no better" if self._pending.origin == "reflection" else "worse than the better parent"
        if event["proposal_accepted"]:
            decision, how = "accepted", "as good" if self._after == self._before else "better"
            self._ids.append(self._pending.candidate_id)
        reason = f"{how} on its few questions ({self._before:.0%} → {self._after:.0%})"
        if decision == "accepted":
            reason += ", and kept"
        is_complete = self._is_minibatch_complete and self._is_val_complete
        if not is_complete:
            decision, reason = "cut_off", self._context.get_stop_reason() or "its scoring was broken off"
        proposal = replace(
            self._pending,
            decision=decision,
            reason=reason,
            minibatch_before=self._before if self._is_minibatch_complete else None,
            minibatch_after=self._after if self._is_minibatch_complete else None,
            val_score=self._val_score if is_complete else None,
            spend=(self._budget.spend() - self._spend_before).to_dict(),
        )
        self._report(proposal)

    def _propose(self, texts: dict[str, str], parents: Sequence[int], origin: str) -> None:
        self._n_proposed += 1
        start, first = self._parent, self._state.program_candidates[parents[0]]
        self._pending = Proposal(
            f"c{self._n_proposed:03}",
            prompts=replace(start, texts={**start.texts, **texts}, edited=(), provenance={}),
            parent_ids=tuple(self._ids[number] for number in parents),
            agents=tuple(agent for agent, text in texts.items() if text != first.get(agent)),
            origin=origin,
        )


def _are_complete(outputs: "Iterable[dspy.Prediction | None]") -> bool:
    return all("trial" not in output or output.trial.completed for output in outputs if output is not None)
