"""Callback and selection strategy that turn a GEPA search into one `Proposal` for each candidate.

events = GepaEvents(student, objective, context, report, max_kept=None)
dspy.GEPA(…, gepa_kwargs={"callbacks": [events], "selection_strategy": events}).compile(…)
events.check()                  # raises the exception of a handler, which gepa would only log

gepa's events of a rejection do not name the proposal, so proposals are taken where gepa selects among them.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import dspy
from gepa.core.state import GEPAState
from gepa.proposer.base import CandidateProposal
from gepa.strategies.acceptance import AcceptanceCriterion
from gepa.strategies.proposal_selection import AllImprovements, TopKImprovements

from optimize.search.candidate import PARENT, Candidate, Decision, Proposal
from optimize.search.optimizer import ReportProposal, SearchContext
from optimize.search.student import Objective, Student

Event = Mapping[str, Any]
Handler = Callable[["GepaEvents", Event], None]
Reflected = CandidateProposal[int]


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
class _Pending:
    """A proposal that is not decided yet."""

    candidate: Candidate
    score_before: float  # mean scores on the minibatch
    score_after: float
    is_minibatch_cut_off: bool  # an answer was interrupted
    is_val_cut_off: bool = False
    val_score: float | None = None


class GepaEvents:
    """Callback and selection strategy of gepa. All methods run in the thread of the search."""

    def __init__(
        self,
        student: Student,
        objective: Objective,
        context: SearchContext,
        report: ReportProposal,
        max_kept: int | None = None,
    ) -> None:
        """Begin with no candidate but the parent.

        Args:
            student: with the prompts to start from.
            objective: with the validation questions.
            context: of the search.
            report: receives each proposal.
            max_kept: proposals of one round that are kept, the most improved ones; None: all that are accepted.
        """
        self.failure: Exception | None = None
        self._selection = AllImprovements() if max_kept is None else TopKImprovements(max_kept)
        self._parent, self._context, self._report = student.initial_prompts, context, report
        self._ledger = student.trials.ledger
        self._ids = [PARENT]  # by gepa's number
        self._texts: list[dict[str, str]] = []
        self._val_scores: list[Mapping[int, float]] = []
        self._val_numbers = {sample_id: number for number, sample_id in enumerate(objective.val_ids)}
        self._n_proposed = self._iteration = 0
        self._spend_before = self._ledger.spend()
        self._pending: list[_Pending] = []  # that gepa scores on all validation questions, in its order
        self._merge_scores: tuple[float, float, bool] = (0.0, 0.0, False)  # as in _Pending

    def check(self) -> None:
        """Raise the first exception of a handler, if there was one."""
        if self.failure is not None:
            raise self.failure

    def select(
        self,
        proposals: list[Reflected],
        state: GEPAState[dspy.Prediction, int],
        acceptance_criterion: AcceptanceCriterion,
    ) -> list[Reflected]:
        """Return the proposals of a round that are scored on all validation questions; report the others."""
        selected: list[Reflected] = []
        for proposal in self._selection.select(list(proposals), state, acceptance_criterion):
            if proposal.candidate not in [each.candidate for each in selected]:
                selected.append(proposal)
        try:
            waiting = {id(proposal): self._take(proposal) for proposal in proposals}
            self._pending = [waiting[id(proposal)] for proposal in selected]
            for proposal in proposals:
                if not any(proposal is each for each in selected):
                    how = "no better"
                    if any(proposal.candidate == each.candidate for each in selected):
                        how = "the same prompts as another one of its round"
                    elif acceptance_criterion.should_accept(proposal, state):
                        how = "better, but less so than others of its round,"
                    self._decide(waiting[id(proposal)], "rejected", how)
        except Exception as error:  # noqa: BLE001  `check` raises it
            self.failure = self.failure or error
        return selected

    @_guarded
    def on_iteration_start(self, event: Event) -> None:
        self._iteration, self._pending, self._spend_before = event["iteration"], [], self._ledger.spend()

    @_guarded
    def on_evaluation_end(self, event: Event) -> None:
        if event["candidate_idx"] is None and len(event["parent_ids"]) > 1:
            before = self._better_parent_score(event["parent_ids"], event["outputs"])
            self._merge_scores = before, fmean(event["scores"]), _is_any_incomplete(event["outputs"])

    @_guarded
    def on_merge_attempted(self, event: Event) -> None:
        candidate = self._name_candidate(dict(event["merged_candidate"]), list(event["parent_ids"]), "merge")
        self._pending = [_Pending(candidate, *self._merge_scores)]

    @_guarded
    def on_valset_evaluated(self, event: Event) -> None:
        self._texts.append(dict(event["candidate"]))
        self._val_scores.append(dict(event["scores_by_val_id"]))
        if self._pending:
            self._pending[0].val_score = event["average_score"]
            self._pending[0].is_val_cut_off = _is_any_incomplete((event["outputs_by_val_id"] or {}).values())

    @_guarded
    def on_candidate_accepted(self, event: Event) -> None:
        pending = self._pending.pop(0)
        self._ids.append(pending.candidate.id)
        same = pending.score_after == pending.score_before  # accepted by acceptance=improvement_or_equal
        self._decide(pending, "accepted", "as good" if same else "better")

    @_guarded
    def on_merge_rejected(self, event: Event) -> None:
        self._decide(self._pending.pop(0), "rejected", "worse than the better parent")

    @_guarded
    def on_iteration_end(self, event: Event) -> None:
        for pending in self._pending:
            pending.is_val_cut_off = True
            self._decide(pending, "cut_off", "")
        self._pending = []

    def _take(self, proposal: Reflected) -> _Pending:
        before, after = proposal.eval_before, proposal.eval_after
        if before is None or after is None:
            raise ValueError("a proposal of gepa has no answers to its minibatch")
        return _Pending(
            self._name_candidate(dict(proposal.candidate), list(proposal.parent_program_ids), "reflection"),
            fmean(before.scores),
            fmean(after.scores),
            _is_any_incomplete((*before.outputs, *after.outputs)),
        )

    def _name_candidate(self, texts: dict[str, str], parents: Sequence[int], origin: str) -> Candidate:
        self._n_proposed += 1
        start, first = self._parent, self._texts[parents[0]]
        return Candidate(
            id=f"c{self._n_proposed:03}",
            prompts=replace(start, texts={**start.texts, **texts}, edited=(), provenance={}),
            parent_ids=tuple(self._ids[number] for number in parents),
            agents=tuple(agent for agent, text in texts.items() if text != first.get(agent)),
            origin=origin,
        )

    def _decide(self, pending: _Pending, decision: Decision, how: str) -> None:
        """Report a proposal. Of several that were made at once, the first has what all of them took until then."""
        reason = f"{how} on its few questions ({pending.score_before:.0%} → {pending.score_after:.0%})"
        if decision == "accepted":
            reason += ", and kept"
        is_cut_off = pending.is_minibatch_cut_off or pending.is_val_cut_off
        if is_cut_off:
            decision, reason = "cut_off", self._context.get_stop_reason() or "its scoring was broken off"
        spend = self._ledger.spend()
        self._report(
            Proposal(
                pending.candidate,
                decision,
                reason,
                iteration=self._iteration,
                minibatch_before=None if pending.is_minibatch_cut_off else pending.score_before,
                minibatch_after=None if pending.is_minibatch_cut_off else pending.score_after,
                val_score=None if is_cut_off else pending.val_score,
                spend=spend - self._spend_before,
            )
        )
        self._spend_before = spend

    def _better_parent_score(self, parents: Iterable[int], outputs: Sequence[dspy.Prediction]) -> float:
        """Return the better parent's mean on the validation questions that a merge is tried on."""
        numbers = [self._val_numbers[output.trial.record.sample_id] for output in outputs]
        return max(fmean(self._val_scores[parent][number] for number in numbers) for parent in parents)


def _is_any_incomplete(outputs: Iterable[dspy.Prediction | None]) -> bool:
    return any("trial" in output and not output.trial.completed for output in outputs if output is not None)
