"""Each agent's node alone: what it asks its model, what it writes into the state, and what is seen of it."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from langgraph.runtime import Runtime

from mas.agents.chat_adapter import ChatAdapter
from mas.runtime.lm_errors import EmptyReplyError
from mas.runtime.trace import Trace, record_trace
from mas.systems.gaia import nodes
from mas.systems.gaia.agents import AGENTS, GraphState, MessageType, Worker
from mas.systems.gaia.messages import send_message
from mas.systems.gaia.nodes import GraphContext
from tests.mas.systems.gaia.building import LIMITS, build, start
from tests.scripted_model import UNREADABLE, Answer, ScriptedModel, all_text, answering, in_turn, plan, said

Changes = dict[str, Any]
COULD_NOT = "The question could not be answered."


def told(receiver: str, content: str, step_id: int | None = None, kind: MessageType = "instruction") -> Changes:
    return {"sender": "orchestrator", "receiver": receiver, "type": kind, "content": content, "step_id": step_id}


def answered(sender: str, content: str, step_id: int | None = None) -> Changes:
    return {"sender": sender, "receiver": "orchestrator", "type": "response", "content": content, "step_id": step_id}


def begin(*asked: Changes, **changes: Any) -> GraphState:
    """A state in which the orchestrator has sent these messages."""
    state = cast(GraphState, {**start("towns.csv"), **changes})
    for each in asked:
        state = send_message(state, each["sender"], each["receiver"], each["type"], each["content"], each["step_id"])
    return state


def context(model: Any = None, predictors: Any = None, **settings: Any) -> Runtime[GraphContext]:
    program = build(model or ScriptedModel(answering()))
    found = {**{name: getattr(program, name) for name in AGENTS}, **(predictors or {})}
    allowed = {"max_research_steps": 2, "on_retry_exhausted": "give_up", **settings}
    return Runtime(context=GraphContext(found, program.toolboxes, LIMITS, **allowed))


def run(
    node: Callable[[GraphState, Runtime[GraphContext]], Awaitable[GraphState]],
    state: GraphState,
    runtime: Runtime[GraphContext],
) -> tuple[Changes, Trace]:
    """What the node changed (of the messages only the new ones, without their times), and the trace."""
    trace = Trace("thread-1")

    async def call() -> GraphState:
        return await node(state, runtime)

    with record_trace(trace), dspy.context(adapter=ChatAdapter(use_native_function_calling=True)):
        after: Any = asyncio.run(call())
    before: Any = state
    changes = {name: value for name, value in after.items() if value != before[name]}
    assert after["agent_messages"][: len(before["agent_messages"])] == before["agent_messages"]
    new = after["agent_messages"][len(before["agent_messages"]) :]
    changes["agent_messages"] = [{k: v for k, v in message.items() if k != "timestamp"} for message in new]
    return changes, trace


def seen(trace: Trace) -> tuple[str, Changes, Changes, Changes, list[Changes]]:
    """The agent's span: name, inputs, outputs, attributes, and events but those of messages."""
    (span,) = [span for span in trace.spans if span.kind == "agent"]
    events = [
        {key: value for key, value in event.items() if key != "seconds"}
        for event in span.events
        if event["name"] in ("decision", "unusable reply")
    ]
    return span.name, span.inputs, span.outputs, span.attributes, events


def failing(*replies: Exception | dspy.Prediction) -> Any:
    """A predictor with one outcome after the other."""
    return SimpleNamespace(acall=AsyncMock(side_effect=list(replies)), signature=nodes.ReviewPlan)


def unread(message: str) -> AdapterParseError:
    return AdapterParseError(adapter_name="a", signature=nodes.Plan, lm_response="", message=message)


def test_every_agent_has_its_node() -> None:
    assert {
        "planner": nodes.planner,
        "researcher": nodes.researcher,
        "expert": nodes.expert,
        "critic": nodes.critic,
        "finalizer": nodes.finalizer,
    } == nodes.NODES


def test_the_planners_plan_and_its_turn_are_written() -> None:
    model = ScriptedModel(answering(planner=plan("one", "two", expert_steps=("add", "check"))))
    earlier = {"request": "Plan.", "file": "towns.csv", "research_steps": ["old"], "expert_steps": ["guess"]}
    steps = {"research_steps": ["one", "two"], "expert_steps": ["add", "check"]}
    changes, trace = run(nodes.planner, begin(told("planner", "Better."), planner_turns=[earlier]), context(model))
    assert changes == {
        **steps,
        "planner_turns": [earlier, {"request": "Better.", "file": "towns.csv", **steps}],
        "agent_messages": [
            answered("planner", "Planner complete. Research steps: ['one', 'two'], Expert steps: ['add', 'check']")
        ],
    }
    assert seen(trace) == ("planner", {"request": "Better."}, steps, {}, [])
    texts = [text for _, text in said(model.asked("planner")[0])]
    assert len(texts) == 3 and "Plan." in texts[0] and "old" in texts[1] and "Better." in texts[2]
    assert "towns.csv" in texts[2]


@pytest.mark.parametrize(
    ("research", "expert", "most", "objection"),
    [
        (2, 1, 2, None),
        (0, 1, 0, None),
        (3, 1, 2, "The plan has 3 research steps; at most 2 are allowed. Merge or drop steps."),
        (1, 0, 0, "The plan has 1 research steps; at most 0 are allowed. Merge or drop steps."),
        (2, 0, 2, "The plan has no expert steps; at least one is needed to get from the findings to the answer."),
    ],
)
def test_a_plan_that_cannot_be_followed_is_rejected_without_its_critic(
    research: int, expert: int, most: int, objection: str | None
) -> None:
    steps: Any = {"research_steps": ["r"] * research, "expert_steps": ["e"] * expert}
    planner = failing(dspy.Prediction(**steps))
    state = begin(told("planner", "Plan."), research_steps=["x"], expert_steps=["y"])
    changes, _ = run(nodes.planner, state, context(predictors={"planner": planner}, max_research_steps=most))
    verdict = {"current_step": "critic_planner", "critic_planner_decision": "reject"}
    assert changes == {
        **steps,
        "planner_turns": [{"request": "Plan.", "file": "towns.csv", **steps}],
        "agent_messages": changes["agent_messages"],
        **({**verdict, "critic_planner_feedback": objection} if objection else {}),
    }
    planner.acall.assert_awaited_once_with(request="Plan.", file="towns.csv", history=dspy.History(messages=[]))


@pytest.mark.parametrize(("worker", "step_id"), [("planner", None), ("researcher", 1), ("expert", None)])
@pytest.mark.parametrize(("length", "kept"), [(10, 10), (5_000, None)], ids=["short", "long"])
def test_an_unusable_reply_counts_as_rejected_with_the_beginning_of_the_reason(
    monkeypatch: pytest.MonkeyPatch, worker: Worker, step_id: int | None, length: int, kept: int | None
) -> None:
    error = unread("x" * length)
    reason = str(error)[:1_500]
    assert len(reason) == (1_500 if kept is None else len(str(error)))
    monkeypatch.setattr(nodes, "react", AsyncMock(side_effect=error))
    state = begin(
        told(worker, "Work.", step_id),
        research_steps=["a", "b"],
        current_research_index=1,
        research_results=["found"],
        current_step=worker,
    )
    changes, trace = run(nodes.NODES[worker], state, context(predictors={"planner": failing(error)}))
    assert changes == {
        "current_step": f"critic_{worker}",
        f"critic_{worker}_decision": "reject",
        f"critic_{worker}_feedback": f"Your last reply could not be used: {reason}",
        "agent_messages": [answered(worker, f"{worker.capitalize()} gave no usable reply.", step_id)],
    }
    name, inputs, outputs, attributes, events = seen(trace)
    assert (name, inputs, outputs) == (worker, {"request": "Work."}, {})
    assert attributes == ({"step_index": 1} if worker == "researcher" else {})
    assert events == [{"name": "unusable reply", "level": "warning", "agent": worker, "error": reason}]


def test_the_researchers_finding_takes_the_place_of_the_steps_earlier_one() -> None:
    model = ScriptedModel(answering(researcher={"result": "Oslo"}))
    turn = {"research_request": "find the town", "file": "towns.csv", "result": "Rome", "tool_calls": None}
    first = {"messages": [], "step_index": 0, "result": "the Tiber"}
    second = {"messages": [turn], "step_index": 1, "result": "Rome"}
    state = begin(
        told("researcher", "find the river", 0),
        told("researcher", "find the town", 1),
        answered("researcher", "Researcher complete for step 1", 1),
        told("researcher", "Name the capital of Norway.", 1, "feedback"),
        research_steps=["river", "town"],
        current_research_index=1,
        researcher_states={0: first, 1: second},
        research_results=["the Tiber", "Rome"],
    )
    changes, trace = run(nodes.researcher, state, context(model))
    new = {
        "research_request": "Name the capital of Norway.",
        "file": "towns.csv",
        "result": "Oslo",
        "tool_calls": dspy.ToolCalls(tool_calls=[]),
    }
    assert changes == {
        "researcher_states": {0: first, 1: {"messages": [turn, new], "step_index": 1, "result": "Oslo"}},
        "research_results": ["the Tiber", "Oslo"],
        "agent_messages": [answered("researcher", "Researcher complete for step 1", 1)],
    }
    request = {"request": "Name the capital of Norway."}
    assert seen(trace) == ("researcher", request, {"result": "Oslo"}, {"step_index": 1}, [])
    text = all_text(model.asked("researcher")[0])
    assert "find the town" in text and "Rome" in text and "the Tiber" not in text and "read_file" in text


def test_the_first_finding_of_a_step_is_added_to_those_before() -> None:
    state = begin(
        told("researcher", "find the town", 1),
        research_steps=["river", "town"],
        current_research_index=1,
        research_results=["the Tiber"],
    )
    changes, _ = run(nodes.researcher, state, context(ScriptedModel(answering(researcher={"result": "Oslo"}))))
    assert changes["research_results"] == ["the Tiber", "Oslo"]
    assert list(changes["researcher_states"]) == [1]
    assert len(changes["researcher_states"][1]["messages"]) == 1


@pytest.mark.parametrize(
    ("reply", "answer", "reasoning", "kept"),
    [
        ({"expert_answer": "42", "reasoning_trace": "six times seven"}, "42", "six times seven", "42"),
        ({"expert_answer": "42", "reasoning_trace": ""}, "42", "", "42"),
        ({"expert_answer": "", "reasoning_trace": "unclear"}, "", "unclear", None),
    ],
)
def test_the_experts_answer_is_written_with_what_it_was_given(
    reply: Answer, answer: str, reasoning: str, kept: str | None
) -> None:
    model = ScriptedModel(answering(expert=reply))
    turn = {"expert_request": "Answer it.", "file": None, "expert_answer": "41", "tool_calls": None}
    state = begin(
        told("expert", "Answer it."),
        answered("expert", "Expert complete."),
        told("expert", "Count again.", kind="feedback"),
        research_steps=["river"],
        research_results=["the Tiber"],
        expert_state={"messages": [turn]},
        expert_answer="41",
        expert_reasoning="guessed",
    )
    changes, trace = run(nodes.expert, state, context(model))
    after = changes["expert_state"]
    assert after.pop("messages")[0] == turn
    assert changes == {
        "expert_state": {
            "question": "How many?",
            "research_steps": ["river"],
            "research_results": ["the Tiber"],
            "expert_answer": answer,
            "expert_reasoning": reasoning,
        },
        "expert_answer": answer,
        "expert_reasoning": reasoning,
        "agent_messages": [answered("expert", f"Expert complete. Answer: {answer}, Reasoning: {reasoning}")],
    }
    outputs = {"expert_answer": answer, "reasoning_trace": reasoning}
    assert seen(trace) == ("expert", {"request": "Count again."}, outputs, {}, [])
    assert trace.answer == kept
    text = all_text(model.asked("expert")[0])
    assert "Answer it." in text and "Count again." in text and "calculator" in text and "towns.csv" in text


def test_outputs_that_the_expert_left_out_are_empty_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    prediction = dspy.Prediction(expert_answer=None, reasoning_trace=None)
    react = AsyncMock(return_value=([{"a": 1}], prediction))
    monkeypatch.setattr(nodes, "react", react)
    runtime = context()
    changes, _ = run(nodes.expert, begin(told("expert", "Answer it.")), runtime)
    assert changes["agent_messages"] == [answered("expert", "Expert complete. Answer: , Reasoning: ")]
    assert (changes["expert_state"]["messages"], changes["expert_state"]["expert_answer"]) == ([{"a": 1}], "")
    react.assert_awaited_once_with(
        runtime.context.predictors["expert"],
        {"expert_request": "Answer it.", "file": "towns.csv"},
        [],
        runtime.context.toolboxes["expert"],
    )


@pytest.mark.parametrize(
    ("step", "first", "has_file"),
    [
        ("critic_planner", "plan_to_review", True),
        ("critic_researcher", "research_to_review", False),
        ("critic_expert", "answer_to_review", False),
    ],
)
@pytest.mark.parametrize(("decision", "level"), [("approve", "info"), ("reject", "warning")])
def test_a_verdict_is_written_for_the_step_that_was_reviewed(
    step: str, first: str, has_file: bool, decision: str, level: str
) -> None:
    model = ScriptedModel(answering(**{step: {"decision": decision, "feedback": "so it is"}}))
    asked = [told(step, "Old work.", 0), told(step, "Review the work.", 0)]
    state = begin(*asked, current_step=step, research_steps=["a"], current_research_index=0)
    changes, trace = run(nodes.critic, state, context(model))
    assert changes == {
        f"{step}_decision": decision,
        f"{step}_feedback": "so it is",
        "agent_messages": [answered("critic", f"Critic complete. Decision: {decision}, Feedback: so it is")],
    }
    verdict = {"decision": decision, "feedback": "so it is"}
    decided = {"name": "decision", "level": level, **verdict}
    assert seen(trace) == (step, {"request": "Review the work."}, verdict, {}, [decided])
    ((_, text),) = said(model.asked(step)[0])
    assert f"[[ ## {first} ## ]]\nReview the work." in text and "Old work." not in text
    assert ("[[ ## file ## ]]\ntowns.csv" in text) is has_file


@pytest.mark.parametrize("step", ["planner", "expert", "input", "finalizer"])
def test_the_critic_has_no_prompt_for_the_work_itself(step: str) -> None:
    with pytest.raises(ValueError, match=rf"^Invalid current step: {step}; the critic has no prompt for it$"):
        run(nodes.critic, begin(current_step=step), context())


GOOD = dspy.Prediction(decision="approve", feedback="fine")
LOST: Any = EmptyReplyError("nothing came")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (LOST, "nothing came"),
        (dspy.Prediction(decision="maybe", feedback=""), "The reply has the decision 'maybe'; expected approve"),
        (dspy.Prediction(decision=None, feedback=""), "The reply has the decision None; expected approve or reject."),
    ],
)
def test_a_critic_is_asked_once_more_and_that_is_noted(bad: Any, reason: str) -> None:
    state = begin(told("critic_planner", "Review."), current_step="critic_planner")
    predictor = failing(bad, GOOD)
    changes, trace = run(nodes.critic, state, context(predictors={"critic_planner": predictor}))
    assert (changes["critic_planner_decision"], changes["critic_planner_feedback"]) == ("approve", "fine")
    first, second = seen(trace)[4]
    assert reason in first.pop("error")
    assert first == {"name": "unusable reply", "level": "warning", "agent": "critic_planner"}
    assert second["name"] == "decision"
    assert [call.kwargs for call in predictor.acall.await_args_list] == [
        {"plan_to_review": "Review.", "file": "towns.csv"}
    ] * 2


def test_a_critic_that_decides_neither_way_twice_ends_the_question() -> None:
    state = begin(told("critic_planner", "Review."), current_step="critic_planner")
    predictor = failing(LOST, dspy.Prediction(decision="", feedback=""), GOOD)
    with pytest.raises(AdapterParseError) as caught:
        run(nodes.critic, state, context(predictors={"critic_planner": predictor}))
    assert "The reply has the decision ''; expected approve or reject." in str(caught.value)
    assert (caught.value.adapter_name, caught.value.signature) == ("critic", nodes.ReviewPlan)
    assert caught.value.lm_response == ""
    other = failing(RuntimeError("down"), GOOD)
    with pytest.raises(RuntimeError, match="down"):
        run(nodes.critic, state, context(predictors={"critic_planner": other}))
    assert other.acall.await_count == 1


def finished(answer: str, trace: str) -> Changes:
    content = f"Finalizer complete. The final answer is:\n{answer}\n\n## The final reasoning trace is:\n{trace}"
    return {
        "final_answer": answer,
        "final_reasoning_trace": trace,
        "agent_messages": [answered("finalizer", content)],
    }


@pytest.mark.parametrize(
    ("failed", "mode", "asks"),
    [(False, "give_up", True), (False, "best_effort", True), (True, "best_effort", True), (True, "give_up", False)],
)
def test_the_finalizer_is_asked_unless_the_question_is_given_up(failed: bool, mode: str, asks: bool) -> None:
    model = ScriptedModel(answering())
    state = begin(
        told("finalizer", "End it."),
        retry_failed=failed,
        failing_agent="expert",
        critic_expert_feedback="wrong",
        final_answer="",
    )
    changes, trace = run(nodes.finalizer, state, context(model, on_retry_exhausted=mode))
    if asks:
        assert changes == finished("42", "all agreed")
        assert seen(trace) == ("finalizer", {"request": "End it."}, {"final_answer": "42"}, {}, [])
        assert "[[ ## answer_request ## ]]\nEnd it." in said(model.asked("finalizer")[0])[0][1]
    else:
        reason = "The expert reached its retry limit. The last feedback on its work was:\nwrong"
        assert changes == finished(COULD_NOT, reason)
        assert [span for span in trace.spans if span.kind == "agent"] == []
    assert len(model.requests) == asks
    assert trace.answer == changes["final_answer"]


def test_the_finalizer_is_asked_once_more_after_an_unusable_reply() -> None:
    done: Answer = {"final_answer": "42", "final_reasoning_trace": "all agreed"}
    model = ScriptedModel(answering(finalizer=in_turn(UNREADABLE, UNREADABLE, done)))
    changes, trace = run(nodes.finalizer, begin(told("finalizer", "End it.")), context(model))
    assert changes == finished("42", "all agreed")
    (noted,) = seen(trace)[4]
    assert (noted["name"], noted["level"], noted["agent"]) == ("unusable reply", "warning", "finalizer")
