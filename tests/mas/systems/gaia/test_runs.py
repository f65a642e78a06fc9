"""Whole questions through the real graph, predictors and adapters: the ways that end well."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from mas.runtime.text import to_jsonable
from mas.runtime.trace import Trace, record_trace
from mas.systems.gaia.agents import GraphState
from mas.systems.gaia.program import recursion_limit
from tests.mas.systems.gaia.building import LIMITS, build, csv_file
from tests.scripted_model import (
    APPROVE,
    STRAIGHT,
    Call,
    ScriptedModel,
    all_text,
    answering,
    in_turn,
    plan,
    reject,
    said,
    system_text,
)

REVIEWED = ["planner", "critic_planner", "expert", "critic_expert", "finalizer"]


def test_a_straight_run_asks_every_agent_in_turn() -> None:
    model = ScriptedModel(answering(planner=plan("first topic", "second topic")))
    prediction = build(model)(question="How many?")
    assert model.agents_asked == [
        "planner",
        "critic_planner",
        *["researcher", "critic_researcher"] * 2,
        "expert",
        "critic_expert",
        "finalizer",
    ]
    assert (prediction.final_answer, prediction.final_reasoning_trace) == ("42", "all agreed")
    assert prediction.state["research_results"] == ["the finding", "the finding"]
    assert prediction.state["retry_failed"] is False


def test_a_plan_without_research_goes_straight_to_the_expert() -> None:
    model = ScriptedModel(answering(planner=plan()))
    prediction = build(model)(question="How many?")
    assert model.agents_asked == REVIEWED
    assert (prediction.final_answer, prediction.state["current_research_index"]) == ("42", -1)


def test_what_one_agent_says_is_what_the_next_one_reads() -> None:
    model = ScriptedModel(
        answering(
            planner=plan("find the river", expert_steps=("halve it",)),
            researcher={"result": "the Tiber, 406 km"},
            expert={"expert_answer": "203", "reasoning_trace": "406 / 2"},
        )
    )
    build(model)(question="How long is half the river?")
    for agent, parts in {
        "planner": ["How long is half the river?"],
        "critic_planner": ["How long is half the river?", "find the river", "halve it"],
        "researcher": ["find the river"],
        "critic_researcher": ["find the river", "the Tiber, 406 km"],
        "expert": ["How long is half the river?", "the Tiber, 406 km", "halve it"],
        "critic_expert": ["203", "406 / 2"],
        "finalizer": ["203", "406 / 2", "find the river", "halve it"],
    }.items():
        (request,) = model.asked(agent)
        (_, text) = said(request)[-1]
        assert [part for part in parts if part not in text] == [], agent


def test_a_tool_is_really_called_and_its_result_comes_back(tmp_path: Path) -> None:
    model = ScriptedModel(
        answering(
            planner=plan("read the table"),
            researcher=in_turn([Call("read_file", {"file": "towns.csv"})], STRAIGHT["researcher"]),
            expert=in_turn([Call("calculator", {"expression": "7+5"})], STRAIGHT["expert"]),
        )
    )
    build(model)(question="How many?", file=csv_file(tmp_path))
    assert "Rome" in said(model.asked("researcher")[1])[2][1]
    assert said(model.asked("expert")[1])[2] == ("tool", "12")


@pytest.mark.parametrize("native_tools", [True, False])
@pytest.mark.parametrize("as_text", [True, False])
def test_the_attachment_is_a_bare_name_everywhere(tmp_path: Path, native_tools: bool, as_text: bool) -> None:
    path = csv_file(tmp_path)
    model = ScriptedModel(
        answering(
            planner=in_turn(plan("read the table"), plan("read the table well")),
            critic_planner=in_turn(reject("more"), APPROVE),
            researcher=in_turn(
                [Call("read_file", {"file": "towns.csv"}), Call("read_file", {"file": str(path)})],
                STRAIGHT["researcher"],
            ),
        ),
        native_tools=native_tools,
    )
    trace = Trace("thread")
    with record_trace(trace):
        prediction = build(model)(question="How many?", file=str(path) if as_text else path)
    assert prediction.state["file"] == "towns.csv"
    for agent, request in model.requests:
        # The path that the scripted model made up itself is its own affair; nobody else may have said it.
        wire = all_text(request).replace(str(path), "", 2) if agent == "researcher" else all_text(request)
        assert str(tmp_path) not in wire, agent
        if agent in ("planner", "critic_planner", "researcher", "expert"):
            assert "[[ ## file ## ]]\ntowns.csv" in wire, agent
    assert "file" not in system_text(model.asked("finalizer")[0]).partition("Your output fields are:")[0]


def test_the_final_state_is_complete_and_fits_into_json(tmp_path: Path) -> None:
    model = ScriptedModel(
        answering(
            planner=plan("read the table"),
            researcher=in_turn([Call("read_file", {"file": "towns.csv"})], STRAIGHT["researcher"]),
        )
    )
    trace = Trace("thread-7")
    with record_trace(trace):
        prediction = build(model)(question="How many?", file=csv_file(tmp_path))
    assert set(prediction.state) == set(get_type_hints(GraphState))
    assert trace.state == prediction.state
    assert prediction.state["correlation_id"] == "thread-7"
    kept = json.loads(json.dumps(to_jsonable(prediction.state)))
    assert kept["final_answer"] == "42"
    call_turn = kept["researcher_states"]["0"]["messages"][0]
    assert "Rome" in json.dumps(call_turn) and "read_file" in json.dumps(call_turn)
    assert str(tmp_path) not in json.dumps(kept)
    assert {key: value for key, value in kept["expert_state"].items() if key != "messages"} == {
        "question": "How many?",
        "research_steps": ["read the table"],
        "research_results": ["the finding"],
        "expert_answer": "42",
        "expert_reasoning": "six times seven",
    }


def test_every_message_is_in_the_final_state_both_ways() -> None:
    model = ScriptedModel(answering(planner=plan("a topic")))
    began = datetime.now(UTC)
    messages = build(model)(question="How many?").state["agent_messages"]
    times = [began, *(datetime.fromisoformat(m["timestamp"]) for m in messages), datetime.now(UTC)]
    assert times == sorted(times)
    assert [(m["sender"], m["receiver"], m["type"], m["step_id"]) for m in messages if m["sender"] != "critic"] == [
        ("orchestrator", "planner", "instruction", None),
        ("planner", "orchestrator", "response", None),
        ("orchestrator", "critic_planner", "instruction", None),
        ("orchestrator", "researcher", "instruction", 0),
        ("researcher", "orchestrator", "response", 0),
        ("orchestrator", "critic_researcher", "instruction", 0),
        ("orchestrator", "expert", "instruction", None),
        ("expert", "orchestrator", "response", None),
        ("orchestrator", "critic_expert", "instruction", None),
        ("orchestrator", "finalizer", "instruction", None),
        ("finalizer", "orchestrator", "response", None),
    ]
    reviewed = "Critic complete. Decision: approve, Feedback: good"
    assert [m["content"] for m in messages if m["receiver"] == "orchestrator"] == [
        "Planner complete. Research steps: ['a topic'], Expert steps: ['work it out']",
        reviewed,
        "Researcher complete for step 0",
        reviewed,
        "Expert complete. Answer: 42, Reasoning: six times seven",
        reviewed,
        "Finalizer complete. The final answer is:\n42\n\n## The final reasoning trace is:\nall agreed",
    ]


def test_the_trace_has_one_span_for_each_agent_model_call_and_tool() -> None:
    model = ScriptedModel(
        answering(expert=in_turn([Call("calculator", {"expression": "6*7"})], STRAIGHT["expert"])),
    )
    trace = Trace("thread")
    with record_trace(trace):
        build(model)(question="How many?")
    assert [span.name for span in trace.spans if span.kind == "agent"] == REVIEWED
    assert len([span for span in trace.spans if span.kind == "lm"]) == len(model.requests) == 6
    (tool,) = [span for span in trace.spans if span.kind == "tool"]
    assert (tool.name, tool.inputs, tool.outputs) == ("calculator", {"expression": "6*7"}, {"observation": "42"})
    assert tool.parent is not None and trace.spans[tool.parent].name == "expert"
    for span in trace.spans:
        assert span.end_seconds is not None and span.error is None
        if span.kind == "lm":
            assert span.parent is not None and trace.spans[span.parent].kind == "agent"


def longest_script() -> Any:
    """Every agent is rejected as often as it may be, in every research step; then approved."""

    def patience(agent: str) -> Any:
        rejections = [reject("once more")] * (LIMITS[agent] - 1)  # type: ignore[index]
        answers = [*rejections, APPROVE] * 6
        return in_turn(*answers)

    topics = [f"topic {index}" for index in range(6)]
    return answering(
        planner=plan(*topics),
        critic_planner=patience("planner"),
        critic_researcher=patience("researcher"),
        critic_expert=patience("expert"),
    )


def test_the_longest_legal_run_is_not_cut_off() -> None:
    model = ScriptedModel(longest_script())
    prediction = build(model, max_research_steps=6)(question="How many?")
    attempts = LIMITS["planner"] + 6 * LIMITS["researcher"] + LIMITS["expert"]
    assert len(model.requests) == 2 * attempts + 1
    assert (prediction.final_answer, prediction.state["retry_failed"]) == ("42", False)
    assert 4 * attempts + 3 <= recursion_limit(LIMITS, 6)
