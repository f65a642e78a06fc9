"""What GEPA tells of its search, event by event, put together to one `Proposal` for each candidate.

events = GepaEvents(search)
dspy.GEPA(…, gepa_kwargs={"callbacks": [events]}).compile(…)
events.check()                  # raises what went wrong while a proposal was told: gepa itself lets nothing through
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from optimize.search.budget import Spend
from optimize.search.candidate import PARENT, Candidate, Decision, Proposal
from optimize.search.optimizer import Search

Event = Mapping[str, Any]


def _guarded(handler: Callable[["GepaEvents", Event], None]) -> Callable[["GepaEvents", Event], None]:
    """gepa logs what a callback raises and goes on; here it is kept, and ends the search."""

    @functools.wraps(handler)
    def guarded(self: "GepaEvents", event: Event) -> None:
        try:
            handler(self, event)
        except Exception as error:  # noqa: BLE001  `check` raises it
            self.failure = self.failure or error

    return guarded


@dataclass
class _Iteration:
    """One proposal in the making."""

    number: int
    began: Spend
    parent: dict[str, str] = field(default_factory=dict)  # texts of the tuned agents
    parents: Sequence[int] = ()  # as gepa numbers them
    candidate: Candidate | None = None
    before: float | None = None  # mean scores on the minibatch
    after: float | None = None
    val_score: float | None = None
    cut_off: bool = False  # an answer was not reached


class GepaEvents:
    """A callback of gepa's. All of it runs in the thread of the search."""

    def __init__(self, search: Search) -> None:
        self.failure: Exception | None = None
        self._search = search
        self._ids = [PARENT]  # by gepa's number
        self._texts: list[dict[str, str]] = []
        self._val_scores: list[Mapping[int, float]] = []
        self._number_of_val = {sample_id: number for number, sample_id in enumerate(search.val_ids)}
        self._proposed = 0
        self._now = _Iteration(0, self._spend())

    def check(self) -> None:
        """
        Raises:
            what was raised while an event was told.
        """
        if self.failure is not None:
            raise self.failure

    @_guarded
    def on_iteration_start(self, event: Event) -> None:
        self._now = _Iteration(event["iteration"], self._spend())

    @_guarded
    def on_candidate_selected(self, event: Event) -> None:
        self._now.parent, self._now.parents = dict(event["candidate"]), [event["candidate_idx"]]

    @_guarded
    def on_evaluation_end(self, event: Event) -> None:
        score = fmean(event["scores"])
        if event["candidate_idx"] is None:
            self._now.after = score
        else:
            self._now.before = score
        self._now.cut_off |= _any_unreached(event["outputs"])
        if event["candidate_idx"] is None and len(event["parent_ids"]) > 1:
            self._now.before = self._best_of(event["parent_ids"], event["outputs"])

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
        self._now.cut_off |= _any_unreached((event["outputs_by_val_id"] or {}).values())

    @_guarded
    def on_candidate_accepted(self, event: Event) -> None:
        if self._now.candidate is not None:
            self._ids.append(self._now.candidate.id)
            self._tell("accepted", f"{self._change('better')}, and kept")

    @_guarded
    def on_candidate_rejected(self, event: Event) -> None:
        self._tell("rejected", self._change("no better"))

    @_guarded
    def on_merge_rejected(self, event: Event) -> None:
        self._tell("rejected", self._change("worse than the better parent"))

    @_guarded
    def on_iteration_end(self, event: Event) -> None:
        self._now.cut_off = True
        self._tell("cut_off", "")

    def _begin(self, texts: dict[str, str], origin: str) -> None:
        self._proposed += 1
        parent = self._search.parent.prompts
        self._now.candidate = Candidate(
            id=f"c{self._proposed:03}",
            prompts=replace(parent, texts={**parent.texts, **texts}, edited=(), provenance={}),
            parent_ids=tuple(self._ids[number] for number in self._now.parents),
            agents=tuple(agent for agent, text in texts.items() if text != self._now.parent.get(agent)),
            origin=origin,
        )

    def _tell(self, decision: Decision, reason: str) -> None:
        """Once for each candidate."""
        now = self._now
        if now.candidate is None:
            return
        if now.cut_off:
            decision, reason = "cut_off", self._search.stopped() or "its scoring was broken off"
        self._search.proposed(
            Proposal(
                now.candidate,
                decision,
                reason,
                iteration=now.number,
                minibatch_before=now.before,
                minibatch_after=now.after,
                val_score=now.val_score,
                spend=self._spend().minus(now.began),
            )
        )
        now.candidate = None

    def _change(self, how: str) -> str:
        before, after = self._now.before or 0.0, self._now.after or 0.0
        return f"{how} on its few questions ({before:.0%} → {after:.0%})"

    def _best_of(self, parents: Iterable[int], outputs: Sequence[Any]) -> float:
        """The better parent's mean on the validation questions that a merge is tried on."""
        numbers = [self._number_of_val[output.trial.record.sample_id] for output in outputs]
        return max(fmean(self._val_scores[parent][number] for number in numbers) for parent in parents)

    def _spend(self) -> Spend:
        spend: Spend = self._search.student.trials.ledger.spend()
        return spend


def _any_unreached(outputs: Iterable[Any]) -> bool:
    return any("trial" in output and not output.trial.reached for output in outputs if output is not None)
