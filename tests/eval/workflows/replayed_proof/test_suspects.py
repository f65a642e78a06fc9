"""Choice of the agents that a proof tests."""

from types import SimpleNamespace
from typing import Any

import pytest

from eval.runs.record import Record
from eval.scorers.labels import LabelSet
from eval.workflows.replayed_proof.suspects import Suspect, Suspects, find_one_sided_critics, find_suspects
from mas.agents.spec import AgentSpec
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


SPECS = [
    AgentSpec("planner", critic="critic_planner"),
    AgentSpec("critic_planner"),
    AgentSpec("researcher", critic="critic_researcher"),
    AgentSpec("critic_researcher"),
    AgentSpec("expert", critic="critic_expert"),
    AgentSpec("critic_expert"),
    AgentSpec("finalizer"),
]


def suspects(records: list[Record], blamed: list[str], *chosen: str, simulated: bool = False) -> Suspects:
    config: Any = SimpleNamespace(system=SimpleNamespace(agent_specs=SPECS), simulated=simulated)
    return find_suspects(config, records, LabelSet(()), blamed, chosen)


HARMLESS = wrong(plan("approve"), draft("18", "reject"))  # no critic decides without looking


def test_each_agent_is_corrected_in_the_way_that_its_work_allows() -> None:
    everybody = ["expert", "planner", "critic_expert", "critic_planner", "finalizer", "outsider", "expert"]
    found = suspects([HARMLESS], [], *everybody)
    assert found.tested == [
        Suspect("expert", "answer", None),
        Suspect("planner", "hint", None),
        Suspect("critic_expert", "review", "expert"),
        Suspect("critic_planner", "approval", "planner"),
    ]
    names = ", ".join(each.name for each in SPECS)
    assert found.skipped == {
        "finalizer": "its output is the answer, which would always be right",
        "outsider": f"it makes several calls of a model; name those to correct, of {names}",
    }


def test_a_simulated_model_reads_no_hint() -> None:
    found = suspects([HARMLESS], [], "planner", "expert", simulated=True)
    assert found.tested == [Suspect("expert", "answer", None)]
    assert found.skipped == {
        "planner": "its correction is a hint in its prompt, which the simulated model does not read"
    }


def test_those_that_are_blamed_most_are_tested_and_critics_that_decide_without_looking_besides() -> None:
    blamed = ["planner", "expert", "researcher", "critic_planner", "critic_researcher", "critic_expert"]
    found = suspects([HARMLESS], blamed)
    assert [each.agent for each in found.tested] == ["planner", "expert", "researcher"]
    approving = wrong(plan("reject"), draft("18", "approve"))
    assert suspects([approving], ["expert"]).tested == [
        Suspect("expert", "answer", None),
        Suspect("critic_planner", "approval", "planner"),
        Suspect("critic_expert", "review", "expert"),
    ]
    assert suspects([approving], ["critic_expert"]).tested == [
        Suspect("critic_expert", "review", "expert"),
        Suspect("critic_planner", "approval", "planner"),
    ]
    assert suspects([approving], ["expert"], "planner").tested == [Suspect("planner", "hint", None)]


def test_the_agent_that_most_answers_end_with_is_the_one_whose_output_is_the_answer() -> None:
    early = record("17", "18", [step("planner", steps=["a"])])
    assert suspects([early, HARMLESS, HARMLESS], [], "finalizer", "planner").skipped.keys() == {"finalizer"}
    assert suspects([early, early, HARMLESS], [], "finalizer", "planner").skipped.keys() == {"planner"}
    assert suspects([], [], "finalizer").tested == [Suspect("finalizer", "hint", None)]
