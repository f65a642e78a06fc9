"""Fate of a proposal by the events of gepa, one after another."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest

from mas.prompt_sets.prompt_set import PromptSet
from optimize.search.budget import Spend
from optimize.search.optimizer import Proposal
from optimize.search.optimizers.gepa_events import GepaEvents

PARENT = PromptSet("base", "toy", {"plan": "P.", "solve": "S.", "end": "E."}, Path("base"), edited=("plan",))


def output(sample_id: str, completed: bool = True) -> dspy.Prediction:
    record = SimpleNamespace(sample_id=sample_id)
    return dspy.Prediction(trial=SimpleNamespace(completed=completed, record=record))


WHOLE, BROKEN, EMPTY = output("v0"), output("v0", completed=False), dspy.Prediction()


class Listener:
    """Events with a search around them that has spent one request more at each look."""

    def __init__(self, stop_reason: str | None = None, report: Callable[[Proposal], None] | None = None) -> None:
        self.proposals: list[Proposal] = []
        self._spent = 0
        ledger = SimpleNamespace(spend=self._spend)
        student: Any = SimpleNamespace(initial_prompts=PARENT, trials=SimpleNamespace(ledger=ledger))
        objective: Any = SimpleNamespace(val_ids=["v0", "v1"])
        context: Any = SimpleNamespace(get_stop_reason=lambda: stop_reason)
        self.events = GepaEvents(student, objective, context, report or self.proposals.append)

    def _spend(self) -> Spend:
        self._spent += 1
        return Spend(lm_calls=self._spent)

    def begin(self, number: int = 1, chosen: int = 0) -> None:
        self.events.on_iteration_start({"iteration": number})
        self.events.on_candidate_selected({"candidate": {"plan": "P.", "solve": "S."}, "candidate_idx": chosen})

    def score(self, idx: int | None, *scores: float, outputs: Any = (WHOLE,), parents: Any = (0,)) -> None:
        self.events.on_evaluation_end(
            {"scores": scores, "candidate_idx": idx, "outputs": outputs, "parent_ids": parents}
        )

    def propose(self, **texts: str) -> None:
        self.events.on_proposal_end({"new_instructions": texts})

    def validate(self, scores: dict[int, float], texts: dict[str, str], outputs: Any = None) -> None:
        average = sum(scores.values()) / len(scores)
        self.events.on_valset_evaluated(
            {"candidate": texts, "scores_by_val_id": scores, "average_score": average, "outputs_by_val_id": outputs}
        )

    def end(self) -> Proposal:
        self.events.on_iteration_end({})
        self.events.check()
        return self.proposals[-1]


def test_an_accepted_proposal_has_its_scores_its_parent_and_what_it_took() -> None:
    search = Listener()
    search.validate({0: 0.0, 1: 1.0}, {"plan": "P.", "solve": "S."})
    search.begin(number=4)
    search.score(0, 0.0, 1.0)
    search.propose(plan="P!", solve="S.")
    search.score(None, 1.0, 1.0)
    search.validate({0: 1.0, 1: 0.5}, {"plan": "P!", "solve": "S."}, {0: WHOLE, 1: None})
    search.events.on_candidate_accepted({})
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
    search.begin()
    search.score(0, 1.0)
    search.propose(solve="S!")
    search.score(None, 0.0)
    search.events.on_candidate_rejected({})
    found = search.end()
    assert (found.decision, found.reason) == ("rejected", "no better on its few questions (100% → 0%)")
    search.begin(2)
    search.propose(solve="S?")
    search.events.on_candidate_rejected({})
    assert search.end().candidate.id == "c002" and "(0% → 0%)" in search.end().reason


@pytest.mark.parametrize(("stop", "reason"), [(None, "its scoring was broken off"), ("budget.usd", "budget.usd")])
def test_what_the_end_of_an_iteration_finds_undecided_was_cut_off(stop: str | None, reason: str) -> None:
    search = Listener(stop)
    search.begin()
    search.propose(plan="P!")
    found = search.end()
    assert (found.decision, found.reason) == ("cut_off", reason)


@pytest.mark.parametrize("place", ["before", "after", "validation"])
def test_one_answer_that_was_broken_off_decides_nothing(place: str) -> None:
    search = Listener()
    search.begin()
    search.score(0, 1.0, outputs=[WHOLE, BROKEN] if place == "before" else [WHOLE])
    search.propose(plan="P!")
    search.score(None, 1.0, outputs=[None, EMPTY, BROKEN] if place == "after" else [WHOLE, None, EMPTY])
    search.validate({0: 1.0}, {"plan": "P!"}, {0: BROKEN, 1: WHOLE} if place == "validation" else {0: WHOLE})
    search.events.on_candidate_accepted({})
    assert search.end().decision == "cut_off"


def test_a_merge_is_compared_with_the_better_of_its_parents() -> None:
    search = Listener()
    search.validate({0: 0.0, 1: 1.0}, {"plan": "P.", "solve": "S."})
    search.begin()
    search.propose(plan="P!")
    search.validate({0: 0.5, 1: 0.75}, {"plan": "P!", "solve": "S."})
    search.events.on_candidate_accepted({})
    search.events.on_iteration_start({"iteration": 2})
    search.events.on_merge_attempted({"parent_ids": [1, 0], "merged_candidate": {"plan": "P!", "solve": "S!"}})
    search.score(None, 0.5, 0.5, outputs=[output("v0"), output("v1")], parents=[1, 0])
    search.events.on_merge_rejected({})
    found = search.end()
    assert found.reason == "worse than the better parent on its few questions (62% → 50%)"
    made = found.candidate
    assert (made.id, made.parent_ids, made.agents, made.origin) == ("c002", ("c001", "parent"), ("solve",), "merge")


def test_the_first_failure_of_a_handler_is_raised_at_the_end() -> None:
    def fail(proposal: Proposal) -> None:
        raise ValueError("disk full")

    search = Listener(report=fail)
    search.begin()
    search.propose(plan="P!")
    search.events.on_candidate_rejected({})
    with pytest.raises(ValueError, match="disk full"):
        search.events.check()
