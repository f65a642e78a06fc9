"""Decisions, responses and the state."""

import pytest
from pydantic import ValidationError

from mas.systems.bos.contracts.response import OrchestratorResponse, OrchestratorState, PlannerDecision


def test_p01_fields_of_a_decision() -> None:
    decision = PlannerDecision(rationale="r", chosen_agents=("api_docs", "sql"))
    assert (decision.chosen_agents, decision.confidence, decision.guardrails) == (("api_docs", "sql"), None, {})
    with pytest.raises(ValidationError, match="frozen"):
        decision.rationale = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.4, 0.4),
        (1, 1.0),
        (-2, 0.0),
        (85, 0.85),
        ("85%", 0.85),
        ("0.5%", 0.005),
        ("0.7", 0.7),
        (1e9, 1.0),
        (2, 0.02),
        (100, 1.0),
        (100.5, 1.0),
        ("100%", 1.0),
        ("-5%", 0.0),
        ("high", None),
        (None, None),
        (float("nan"), None),
        ([], None),
    ],
)
def test_p02_a_confidence_lies_between_0_and_1(given: object, expected: float | None) -> None:
    assert PlannerDecision(rationale="r", confidence=given).confidence == expected  # type: ignore[arg-type]


def test_m05_fields_of_a_response() -> None:
    response = OrchestratorResponse(answer="a")
    assert (response.data, response.agent_results, response.trace, response.planner, response.metadata) == (
        None,
        [],
        [],
        None,
        {},
    )
    with pytest.raises(ValidationError, match="answer"):
        OrchestratorResponse()  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="frozen"):
        response.answer = "other"  # type: ignore[misc]


def test_o01_fields_of_the_state() -> None:
    expected = {"request", "planner", "pending_agents", "agent_results", "trace", "response"}
    assert OrchestratorState.__optional_keys__ == expected and not OrchestratorState.__required_keys__
