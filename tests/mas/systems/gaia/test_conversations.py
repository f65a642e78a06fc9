"""Who sees which part of the conversation (docs/explanation/decisions.md 6)."""

import pytest

from tests.mas.systems.gaia.building import build
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
    tool_results,
)


def in_order(text: str, *parts: str) -> bool:
    """Whether all parts occur, each after the one before."""
    position = 0
    for part in parts:
        position = text.find(part, position)
        if position < 0:
            return False
        position += len(part)
    return True


def test_a_rejected_planner_sees_its_whole_conversation_in_order() -> None:
    model = ScriptedModel(
        answering(
            planner=in_turn(plan("plan A"), plan("plan B"), plan("plan C")),
            critic_planner=in_turn(reject("objection one"), reject("objection two"), APPROVE),
        )
    )
    build(model)(question="How many?")
    first, second, third = model.asked("planner")
    assert [role for role, _ in said(first)] == ["user"]
    assert [role for role, _ in said(second)] == ["user", "assistant", "user"]
    assert [role for role, _ in said(third)] == ["user", "assistant", "user", "assistant", "user"]
    assert in_order(all_text(third), "How many?", "plan A", "objection one", "plan B", "objection two")
    for number, text in enumerate(["How many?", "plan A", "objection one", "plan B", "objection two"]):
        assert text in said(third)[number][1]
    assert "objection one" not in said(third)[-1][1]


@pytest.mark.parametrize("native_tools", [True, False])
def test_a_research_step_does_not_see_the_conversation_of_the_one_before(native_tools: bool) -> None:
    model = ScriptedModel(
        answering(
            planner=plan("topic one", "topic two"),
            researcher=in_turn(
                [Call("read_file", {"file": "none.csv"})], {"result": "finding one"}, {"result": "finding two"}
            ),
        ),
        native_tools=native_tools,
    )
    build(model)(question="How many?")
    *_, second_step = model.asked("researcher")
    assert "topic two" in all_text(second_step)
    for secret in ("topic one", "finding one", "none.csv"):
        assert secret not in all_text(second_step)
    assert "How many?" not in all_text(second_step)


def test_a_rejected_researcher_goes_on_in_its_own_step() -> None:
    model = ScriptedModel(
        answering(
            planner=plan("topic one", "topic two"),
            researcher=in_turn({"result": "finding one"}, {"result": "finding two"}, {"result": "better two"}),
            critic_researcher=in_turn(APPROVE, reject("name the source"), APPROVE),
        )
    )
    prediction = build(model)(question="How many?")
    third = all_text(model.asked("researcher")[2])
    assert in_order(third, "topic two", "finding two", "name the source")
    assert "topic one" not in third and "finding one" not in third
    assert prediction.state["research_results"] == ["finding one", "better two"]
    second_step = prediction.state["researcher_states"][1]
    assert (len(second_step["messages"]), second_step["step_index"], second_step["result"]) == (2, 1, "better two")
    step_ids = [m["step_id"] for m in prediction.state["agent_messages"] if m["receiver"] == "researcher"]
    assert step_ids == [0, 1, 1]


@pytest.mark.parametrize("native_tools", [True, False])
def test_an_expert_in_its_feedback_turn_sees_its_earlier_tool_calls_and_results(native_tools: bool) -> None:
    model = ScriptedModel(
        answering(
            expert=in_turn(
                [Call("calculator", {"expression": "100+23"}), Call("calculator", {"expression": "100+24"})],
                {"expert_answer": "123", "reasoning_trace": "added"},
                STRAIGHT["expert"],
            ),
            critic_expert=in_turn(reject("round it"), APPROVE),
        ),
        native_tools=native_tools,
    )
    build(model)(question="How many?")
    feedback_turn = model.asked("expert")[2]
    text = "\n".join(f"{role}: {content}" for role, content in said(feedback_turn))
    assert in_order(text, "How many?", "100+23", "100+24", "123", "124", "added", "round it")
    roles = [role for role, _ in said(feedback_turn)]
    if native_tools:
        assert roles == ["user", "assistant", "tool", "assistant", "user"]
        assert len(tool_results(feedback_turn)) == 2
    else:
        assert roles == ["user", "assistant", "user", "assistant", "user"]


def test_critics_and_finalizer_have_no_history() -> None:
    model = ScriptedModel(
        answering(
            planner=in_turn(plan("topic A"), plan("topic B")),
            critic_planner=in_turn(reject("objection one"), APPROVE),
            critic_researcher=in_turn(reject("objection two"), APPROVE),
            critic_expert=in_turn(reject("objection three"), APPROVE),
        )
    )
    build(model)(question="How many?")
    for agent in ("critic_planner", "critic_researcher", "critic_expert", "finalizer"):
        for request in model.asked(agent):
            assert [role for role, _ in said(request)] == ["user"], agent
            assert "objection" not in all_text(request), agent
    assert "topic A" not in all_text(model.asked("critic_planner")[1])
