"""Fate of a proposal by the events of gepa, one after another."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from gepa.proposer.base import CandidateProposal, SubsampleEvaluation
from gepa.strategies.acceptance import StrictImprovementAcceptance

from mas.prompt_sets.prompt_set import PromptSet
from optimize.search.budget import Spend
from optimize.search.optimizer import Proposal
from optimize.search.optimizers.gepa_events import GepaEvents

PARENT = PromptSet("base", "toy", {"plan": "P.", "solve": "S.", "end": "E."}, Path("base"), edited=("plan",))

START = {"plan": "P.", "solve": "S."}  # the tuned agents


def output(sample_id: str, completed: bool = True) -> dspy.Prediction:
    record = SimpleNamespace(sample_id=sample_id)
    return dspy.Prediction(trial=SimpleNamespace(completed=completed, record=record))


WHOLE, BROKEN, EMPTY = output("v0"), output("v0", completed=False), dspy.Prediction()


class Listener:
    """Events with a search around them that has spent one request more at each look."""

    def __init__(
        self,
        stop_reason: str | None = None,
        report: Callable[[Proposal], None] | None = None,
        max_kept: int | None = None,
    ) -> None:
        self.proposals: list[Proposal] = []
        self._spent = 0
        ledger = SimpleNamespace(spend=self._spend)
        student: Any = SimpleNamespace(initial_prompts=PARENT, trials=SimpleNamespace(ledger=ledger))
        objective: Any = SimpleNamespace(val_ids=["v0", "v1"])
        context: Any = SimpleNamespace(get_stop_reason=lambda: stop_reason)
        self.events = GepaEvents(student, objective, context, report or self.proposals.append, max_kept)
        self.validate({0: 0.0, 1: 1.0}, START)

    def _spend(self) -> Spend:
        self._spent += 1
        return Spend(lm_calls=self._spent)

    def begin(self, number: int = 1) -> None:
        self.events.on_iteration_start({"iteration": number})

    def round(self, *proposals: CandidateProposal[int], number: int = 1) -> list[CandidateProposal[int]]:
        """Those that gepa goes on with."""
        self.begin(number)
        state: Any = None
        return self.events.select(list(proposals), state, StrictImprovementAcceptance())

    def validate(self, scores: dict[int, float], texts: dict[str, str], outputs: Any = None) -> None:
        average = sum(scores.values()) / len(scores)
        self.events.on_valset_evaluated(
            {"candidate": texts, "scores_by_val_id": scores, "average_score": average, "outputs_by_val_id": outputs}
        )

    def keep(self, proposal: CandidateProposal[int], *scores: float, outputs: Any = None) -> None:
        self.validate(dict(enumerate(scores)), proposal.candidate, outputs)
        self.events.on_candidate_accepted({})

    def end(self) -> Proposal:
        self.events.on_iteration_end({})
        self.events.check()
        return self.proposals[-1]


def proposal(
    before: list[float], after: list[float], outputs: Any = (WHOLE,), parent: int = 0, **texts: str
) -> CandidateProposal[int]:
    evaluations = [SubsampleEvaluation(before, [WHOLE]), SubsampleEvaluation(after, list(outputs))]
    return CandidateProposal({**START, **texts}, [parent], [0], before, after, *evaluations)


def test_an_accepted_proposal_has_its_scores_its_parent_and_what_it_took() -> None:
    search = Listener()
    (better,) = search.round(proposal([0.0, 1.0], [1.0, 1.0], plan="P!"), number=4)
    search.keep(better, 1.0, 0.5, outputs={0: WHOLE, 1: None})
    found = search.end()
    assert len(search.proposals) == 1, "the end of the iteration decides nothing more"
    assert (found.decision, found.reason) == ("accepted", "better on its few questions (50% → 100%), and kept")
    assert (found.iteration, found.minibatch_before, found.minibatch_after, found.val_score) == (4, 0.5, 1.0, 0.75)
    assert found.spend.lm_calls > 0
    made = found.candidate
    assert (made.id, made.parent_ids, made.agents, made.origin) == ("c001", ("parent",), ("plan",), "reflection")
    assert made.prompts.texts == {"plan": "P!", "solve": "S.", "end": "E."} and made.prompts.edited == ()


def test_a_rejected_proposal_says_how_it_did() -> None:
    search = Listener()
    assert search.round(proposal([1.0], [0.0], solve="S!")) == []
    found = search.end()
    assert (found.decision, found.reason) == ("rejected", "no better on its few questions (100% → 0%)")
    search.round(proposal([0.0], [0.0], solve="S?"), number=2)
    assert search.end().candidate.id == "c002" and "(0% → 0%)" in search.end().reason


def test_each_of_several_proposals_of_a_round_has_its_own_fate() -> None:
    """gepa first rejects, then scores those that are kept, in their order."""
    search = Listener(max_kept=2)
    first, best = proposal([0.0, 0.0], [1.0, 0.0], plan="P1"), proposal([0.0, 0.0], [1.0, 1.0], plan="P2")
    worse, late = proposal([1.0, 0.0], [0.0, 0.0], plan="P3"), proposal([0.0, 0.0], [1.0, 0.0], plan="P4")
    selected = search.round(first, best, worse, late)
    assert selected == [best, first]
    search.keep(best, 1.0, 1.0)
    search.keep(first, 0.0, 0.0)
    search.end()
    fates = {each.candidate.id: (each.decision, each.val_score) for each in search.proposals}
    rejected = ("rejected", None)
    assert fates == {"c001": ("accepted", 0.0), "c002": ("accepted", 1.0), "c003": rejected, "c004": rejected}
    reasons = {each.candidate.id: each.reason for each in search.proposals}
    assert reasons["c004"] == "better, but less so than others of its round, on its few questions (0% → 50%)"
    search.round(proposal([0.0], [1.0], plan="P5", parent=1), number=2)
    assert search.end().candidate.parent_ids == ("c002",), "by the order in which gepa kept them"


def test_the_same_prompts_twice_in_a_round_are_scored_once() -> None:
    search = Listener()
    one, other = proposal([0.0], [1.0], plan="P!"), proposal([0.0], [1.0], plan="P!")
    (kept,) = search.round(one, other)
    assert kept is one
    search.keep(kept, 1.0, 1.0)
    search.end()
    assert [(each.candidate.id, each.decision) for each in search.proposals] == [
        ("c002", "rejected"),
        ("c001", "accepted"),
    ]
    assert search.proposals[0].reason.startswith("the same prompts as another one of its round")


@pytest.mark.parametrize(("stop", "reason"), [(None, "its scoring was broken off"), ("budget.usd", "budget.usd")])
def test_what_the_end_of_an_iteration_finds_undecided_was_cut_off(stop: str | None, reason: str) -> None:
    search = Listener(stop)
    search.round(proposal([0.0], [1.0], plan="P!"))
    found = search.end()
    assert (found.decision, found.reason, found.val_score) == ("cut_off", reason, None)
    assert (found.minibatch_before, found.minibatch_after) == (0.0, 1.0), "these answers are complete"


@pytest.mark.parametrize("place", ["before", "after", "validation"])
def test_one_answer_that_was_broken_off_decides_nothing(place: str) -> None:
    search = Listener()
    tried = proposal([0.0], [1.0], [None, EMPTY, BROKEN] if place == "after" else [WHOLE, None, EMPTY], plan="P!")
    if place == "before":
        tried.eval_before = SubsampleEvaluation([0.0], [WHOLE, BROKEN])
    search.round(tried)
    search.keep(tried, 1.0, outputs={0: BROKEN, 1: WHOLE} if place == "validation" else {0: WHOLE})
    found = search.end()
    minibatch = (0.0, 1.0) if place == "validation" else (None, None)
    assert (found.decision, found.val_score) == ("cut_off", None), "which answers there are depends on the threads"
    assert (found.minibatch_before, found.minibatch_after) == minibatch


def test_a_merge_is_compared_with_the_better_of_its_parents() -> None:
    search = Listener()
    (better,) = search.round(proposal([0.0], [1.0], plan="P!"))
    search.keep(better, 0.5, 0.75)
    search.begin(2)
    outputs = [output("v0"), output("v1")]
    search.events.on_evaluation_end(
        {"scores": [0.5, 0.5], "candidate_idx": None, "outputs": outputs, "parent_ids": [1, 0]}
    )
    search.events.on_merge_attempted({"parent_ids": [1, 0], "merged_candidate": {"plan": "P!", "solve": "S!"}})
    search.events.on_merge_rejected({})
    found = search.end()
    assert found.reason == "worse than the better parent on its few questions (62% → 50%)"
    made = found.candidate
    assert (made.id, made.parent_ids, made.agents, made.origin) == ("c002", ("c001", "parent"), ("solve",), "merge")


def test_the_first_failure_of_a_handler_is_raised_at_the_end() -> None:
    def fail(proposal: Proposal) -> None:
        raise ValueError("disk full")

    search = Listener(report=fail)
    assert search.round(proposal([0.0], [0.0], plan="P!")) == []
    with pytest.raises(ValueError, match="disk full"):
        search.events.check()


def test_of_several_failures_of_handlers_the_first_is_raised() -> None:
    search, failures = Listener(), iter([ValueError("first"), ValueError("second")])

    def fail(proposal: Proposal) -> None:
        raise next(failures)

    search.events._report = fail
    search.round(proposal([0.0], [0.0], plan="P!"))
    search.round(proposal([0.0], [0.0], plan="P?"))
    search.events.on_merge_rejected({})  # of no proposal: a failure of its own
    with pytest.raises(ValueError, match="first"):
        search.events.check()
    Listener().events.check()


def test_what_was_spent_is_told_of_the_proposal_that_it_was_spent_on() -> None:
    """Each look at the ledger finds one request more: at the beginning of a round and at each decision."""
    search = Listener()
    search._spent = 10
    first, second = proposal([0.0], [1.0], plan="P1"), proposal([0.0], [0.0], plan="P2")
    search.round(first, second)
    search._spent += 5
    search.keep(first, 1.0, 1.0)
    search.end()
    assert [(each.candidate.id, each.spend.lm_calls) for each in search.proposals] == [("c002", 1), ("c001", 6)]


def test_a_proposal_that_is_as_good_as_its_parent_may_be_kept() -> None:
    search = Listener()
    equal = proposal([0.5], [0.5], plan="P!")
    search.round(equal)
    search.events._pending = [search.events._take(equal)]
    search.keep(equal, 1.0, 1.0)
    found = search.end()
    assert (found.decision, found.reason) == ("accepted", "as good on its few questions (50% → 50%), and kept")


@pytest.mark.parametrize(
    ("changes", "counts"),
    [({}, True), ({"candidate_idx": 1}, False), ({"candidate_idx": 0}, False), ({"parent_ids": [1]}, False)],
)
def test_only_answers_to_a_merge_are_those_of_a_merge(changes: dict[str, Any], counts: bool) -> None:
    search = Listener()
    (better,) = search.round(proposal([0.0], [1.0], plan="P!"))
    search.keep(better, 0.5, 0.75)
    search.begin(2)
    event = {"scores": [1.0, 0.5], "candidate_idx": None, "outputs": [output("v1")] * 2, "parent_ids": [1, 0]}
    search.events.on_evaluation_end({**event, **changes})
    search.events.on_merge_attempted({"parent_ids": [1, 0], "merged_candidate": {**START, "plan": "P?"}})
    search.events.on_merge_rejected({})
    found = search.end()
    assert (found.minibatch_before, found.minibatch_after) == ((1.0, 0.75) if counts else (0.0, 0.0))
    assert found.candidate.agents == ("plan",)


def test_a_merge_of_which_an_answer_was_broken_off_is_cut_off() -> None:
    search = Listener("budget.usd")
    (better,) = search.round(proposal([0.0], [1.0], plan="P!"))
    search.keep(better, 0.5, 0.75)
    search.begin(2)
    outputs = [output("v0"), output("v1", completed=False)]
    search.events.on_evaluation_end(
        {"scores": [1.0, 1.0], "candidate_idx": None, "outputs": outputs, "parent_ids": [0, 1]}
    )
    search.events.on_merge_attempted({"parent_ids": [0, 1], "merged_candidate": dict(START)})
    search.events.on_merge_rejected({})
    found = search.end()
    assert (found.decision, found.reason) == ("cut_off", "budget.usd")
    assert (found.minibatch_before, found.minibatch_after, found.val_score) == (None, None, None)
