"""Rejections, up to the limit and at it; and what happens to the question then."""

from typing import Any

import pytest

from mas.runtime.trace import Trace, record_trace
from mas.systems.gaia.agents import WORKERS, Worker
from tests.mas.systems.gaia.building import LIMITS, build
from tests.scripted_model import ScriptedModel, all_text, answering, plan, reject

NEVER = "I am never content"


def always_rejecting(agent: str, **agents: Any) -> ScriptedModel:
    return ScriptedModel(answering(planner=plan("a topic"), **{f"critic_{agent}": reject(NEVER)}, **agents))


@pytest.mark.parametrize("agent", WORKERS)
def test_a_question_whose_retries_are_exhausted_is_given_up(agent: Worker) -> None:
    model = always_rejecting(agent)
    prediction = build(model)(question="How many?")
    assert prediction.final_answer == "The question could not be answered."
    assert agent in prediction.final_reasoning_trace and NEVER in prediction.final_reasoning_trace
    assert [other for other in WORKERS if other != agent and other in prediction.final_reasoning_trace] == []
    assert len(model.asked(agent)) == LIMITS[agent]
    assert model.asked("finalizer") == []
    assert (prediction.state["retry_failed"], prediction.state["failing_agent"]) == (True, agent)


@pytest.mark.parametrize("agent", WORKERS)
def test_with_best_effort_the_finalizer_answers_from_what_there_is(agent: Worker) -> None:
    best = {"final_answer": "perhaps 41", "final_reasoning_trace": "not approved"}
    model = always_rejecting(agent, finalizer=best)
    prediction = build(model, on_retry_exhausted="best_effort")(question="How many?")
    assert (prediction.final_answer, prediction.final_reasoning_trace) == ("perhaps 41", "not approved")
    (request,) = model.asked("finalizer")
    text = all_text(request)
    assert f"The {agent} reached its retry limit." in text and NEVER in text and "How many?" in text
    available = {"planner": ["a topic"], "researcher": ["the finding"], "expert": ["the finding", "six times seven"]}
    assert [part for part in available[agent] if part not in text] == []
    assert prediction.state["failing_agent"] == agent


def test_rejections_and_the_limit_are_warnings_in_the_trace() -> None:
    heard: list[tuple[str, str, Any]] = []
    model = always_rejecting("planner")
    with record_trace(Trace("thread", lambda level, name, fields: heard.append((level, name, fields)))):
        build(model)(question="How many?")
    warnings = [(name, fields) for level, name, fields in heard if level == "warning"]
    decisions = [fields for name, fields in warnings if name == "decision"]
    assert [(each["decision"], each["feedback"]) for each in decisions] == [("reject", NEVER)] * LIMITS["planner"]
    (exhausted,) = [fields for name, fields in warnings if name == "retries exhausted"]
    assert (exhausted["agent"], exhausted["retry_count"]) == ("planner", LIMITS["planner"])
