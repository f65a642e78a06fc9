"""Callback that turns the events of a GEPA search into one `Proposal` for each candidate.

events = GepaEvents(student, objective, context, report)
dspy.GEPA(…, gepa_kwargs={"callbacks": [events]}).compile(…)
events.check()                  # raises the exception of a handler, which gepa would only log
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import dspy

from optimize.search.budget import Spend
from optimize.search.candidate import PARENT, Candidate, Decision, Proposal
from optimize.search.optimizer import ReportProposal, SearchContext
from optimize.search.student import Objective, Student

Event = Mapping[str, Any]
Handler = Callable[["GepaEvents", Event], None]


def _guarded(handler: Handler) -> Handler:
    """Keep what a handler raises, for `check`: gepa logs it and goes on."""

    @functools.wraps(handler)
    def call_handler(self: "GepaEvents", event: Event) -> None:
        try:
            handler(self, event)
        except Exception as error:  # noqa: BLE001  `check` raises it
            self.failure = self.failure or error

    return call_handler


@dataclass
class _Iteration:
    """State of one proposal until it is decided."""

    number: int
    spend_before: Spend
    parent: dict[str, str] = field(default_factory=dict)  # texts of the tuned agents
    parents: Sequence[int] = ()  # gepa's numbers
    candidate: Candidate | None = None
    score_before: float | None = None  # mean scores on the minibatch
    score_after: float | None = None
    val_score: float | None = None
    cut_off: bool = False  # an answer was interrupted


class GepaEvents:
    """Callback of gepa. All handlers run in the thread of the search."""

    def __init__(self, student: Student, objective: Objective, context: SearchContext, report: ReportProposal) -> None:
        self.failure: Exception | None = None
        self._parent, self._context, self._report = student.initial_prompts, context, report
        self._ledger = student.trials.ledger
        self._ids = [PARENT]  # by gepa's number
        self._texts: list[dict[str, str]] = []
        self._val_scores: list[Mapping[int, float]] = []
        self._val_numbers = {sample_id: number for number, sample_id in enumerate(objective.val_ids)}
        self._n_proposed = 0
        self._now = _Iteration(0, self._ledger.spend())

    def check(self) -> None:
        """Raise the first exception of a handler, if there was one."""
        if self.failure is not None:
            raise self.failure

    @_guarded
    def on_iteration_start(self, event: Event) -> None:
        self._now = _Iteration(event["iteration"], self._ledger.spend())

    @_guarded
    def on_candidate_selected(self, event: Event) -> None:
        self._now.parent, self._now.parents = dict(event["candidate"]), [event["candidate_idx"]]

    @_guarded
    def on_evaluation_end(self, event: Event) -> None:
        score = fmean(event["scores"])
        if event["candidate_idx"] is None:
            self._now.score_after = score
        else:
            self._now.score_before = score
        self._now.cut_off |= _is_any_incomplete(event["outputs"])
        if event["candidate_idx"] is None and len(event["parent_ids"]) > 1:
            self._now.score_before = self._better_parent_score(event["parent_ids"], event["outputs"])

    @_guarded
    def on_proposal_end(self, event: Event) -> None:
        self._begin({**self._now.parent, **event["new_instructions"]}, "reflection")

    @_guarded
    def on_merge_attempted(self, event: Event) -> None:
        self._now.parents = list(event["parent_ids"])
        self._now.parent = self._texts[self._now.parents[0]]
        self._begin(dict(event["merged_candidate"]), "merge")

    @_guarded
    def on_valset_evaluated(self, event: Event) -> None:
        self._texts.append(dict(event["candidate"]))
        self._val_scores.append(dict(event["scores_by_val_id"]))
        self._now.val_score = event["average_score"]
        self._now.cut_off |= _is_any_incomplete((event["outputs_by_val_id"] or {}).values())

    @_guarded
    def on_candidate_accepted(self, event: Event) -> None:
        if self._now.candidate is not None:
            self._ids.append(self._now.candidate.id)
            self._decide("accepted", f"{self._describe_change('better')}, and kept")

    @_guarded
    def on_candidate_rejected(self, event: Event) -> None:
        self._decide("rejected", self._describe_change("no better"))

    @_guarded
    def on_merge_rejected(self, event: Event) -> None:
        self._decide("rejected", self._describe_change("worse than the better parent"))

    @_guarded
    def on_iteration_end(self, event: Event) -> None:
        self._now.cut_off = True
        self._decide("cut_off", "")

    def _begin(self, texts: dict[str, str], origin: str) -> None:
        self._n_proposed += 1
        parent = self._parent
        self._now.candidate = Candidate(
            id=f"c{self._n_proposed:03}",
            prompts=replace(parent, texts={**parent.texts, **texts}, edited=(), provenance={}),
            parent_ids=tuple(self._ids[number] for number in self._now.parents),
            agents=tuple(agent for agent, text in texts.items() if text != self._now.parent.get(agent)),
            origin=origin,
        )

    def _decide(self, decision: Decision, reason: str) -> None:
        """Report the candidate once."""
        now = self._now
        if now.candidate is None:
            return
        if now.cut_off:
            decision, reason = "cut_off", self._context.get_stop_reason() or "its scoring was broken off"
        self._report(
            Proposal(
                now.candidate,
                decision,
                reason,
                iteration=now.number,
                minibatch_before=now.score_before,
                minibatch_after=now.score_after,
                val_score=now.val_score,
                spend=self._ledger.spend() - now.spend_before,
            )
        )
        now.candidate = None

    def _describe_change(self, how: str) -> str:
        before, after = self._now.score_before or 0.0, self._now.score_after or 0.0
        return f"{how} on its few questions ({before:.0%} → {after:.0%})"

    def _better_parent_score(self, parents: Iterable[int], outputs: Sequence[dspy.Prediction]) -> float:
        """Return the better parent's mean on the validation questions that a merge is tried on."""
        numbers = [self._val_numbers[output.trial.record.sample_id] for output in outputs]
        return max(fmean(self._val_scores[parent][number] for number in numbers) for parent in parents)


def _is_any_incomplete(outputs: Iterable[dspy.Prediction | None]) -> bool:
    return any("trial" in output and not output.trial.completed for output in outputs if output is not None)
