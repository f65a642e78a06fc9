"""Choice of the agents that a proof tests."""

from typing import Any

import pytest

from eval.runs.record import Record
from eval.scorers.labels import LabelSet
from eval.workflows.replayed_proof.suspects import find_one_sided_critics
from tests.optimize.simulated_runs import record, step

CRITICS = {"critic_planner": "planner", "critic_researcher": "researcher", "critic_expert": "expert"}
Steps = list[list[dict[str, Any]]]


def plan(decision: str) -> Steps:
    return [step("planner", steps=["a"]), step("critic_planner", decision=decision, feedback="f")]


def draft(answer: str, decision: str) -> Steps:
    return [step("expert", expert_answer=answer), step("critic_expert", decision=decision, feedback="f")]


def wrong(*parts: Steps) -> Record:
    return record("17", "18", [*(each for part in parts for each in part), step("finalizer", final_answer="18")])


def find(*records: Record) -> list[str]:
    return find_one_sided_critics(records, CRITICS, LabelSet(()))


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([draft("18", "approve")], ["critic_expert"]),
        ([draft("18", "reject"), draft("18", "approve")], []),
        ([draft("17", "reject"), draft("18", "reject")], ["critic_expert"]),
        ([plan("reject"), plan("reject"), draft("18", "reject")], ["critic_planner"]),
        ([plan("reject"), plan("approve"), draft("18", "reject")], []),
        ([plan("approve"), draft("18", "reject")], []),
    ],
)
def test_a_critic_that_decides_the_same_way_and_wrongly_is_tested(parts: list[Steps], found: list[str]) -> None:
    assert find(wrong(*parts)) == found


def test_a_critic_is_no_suspect_for_a_right_draft_that_it_approved_and_a_later_agent_spoilt() -> None:
    assert find(wrong(draft("17", "approve"))) == []


def test_a_report_of_a_question_that_was_given_up_is_no_draft() -> None:
    report = [step("researcher", result="18"), step("critic_researcher", decision="reject", feedback="f")]
    assert find(wrong(plan("approve"), report, report)) == ["critic_researcher"]


def test_one_decision_in_ten_may_be_otherwise() -> None:
    rejected, approved = wrong(plan("reject")), wrong(plan("approve"))
    assert find(*[rejected] * 9, approved) == ["critic_planner"]
    assert find(*[rejected] * 8, approved) == []
