"""The single agent over a scripted model: one conversation with tools, retries with a reason, settings and prompt."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Request
from dspy.utils.exceptions import AdapterParseError, LMServerError

from mas.agents.spec import AgentSettings
from mas.runtime.lm_errors import StepLimitError, TruncatedReplyError
from mas.runtime.trace import Trace, record_trace
from mas.systems.single_agent.system import SingleAgentSystem
from mas.tools.settings import Resources
from tests.scripted_model import UNREADABLE, Answer, Call, Reply, ScriptedModel, all_text, in_turn, said

TOOLS = {"read_file": "mas.tools.read_file.read_file", "calculator": "mas.tools.calculator.calculator"}
DONE: Answer = {"final_answer": "42", "final_reasoning_trace": "six times seven"}
SUM = Call("calculator", {"expression": "6*7"})


def answering(*answers: Answer | Callable[[Request], Answer], **settings: Any) -> ScriptedModel:
    """A model with one answer after the other, whoever it takes the agent for."""
    next_answer = in_turn(*answers)
    return ScriptedModel(lambda agent, request: next_answer(request), **settings)


def build(scripted: ScriptedModel, /, **settings: Any) -> Any:
    system = SingleAgentSystem(tools=TOOLS, agents={"agent": AgentSettings(**{"tools": list(TOOLS), **settings})})
    system.check()
    return system.build(scripted, None, Resources())


def requests(model: ScriptedModel) -> list[Request]:
    return [request for _, request in model.requests]


@pytest.mark.parametrize("native", [True, False])
def test_one_conversation_from_the_file_over_a_tool_to_the_answer(tmp_path: Path, native: bool) -> None:
    file = tmp_path / "towns.csv"
    file.write_text("town,people\nRome,7\n")
    model = answering([Call("read_file", {"file": "towns.csv"})], [SUM], DONE, native_tools=native)
    with record_trace(Trace("thread-1")) as trace:
        prediction = build(model)(question="How many people?", file=str(file))
    assert (prediction.final_answer, prediction.final_reasoning_trace) == ("42", "six times seven")
    last = all_text(requests(model)[-1])
    assert "How many people?" in last and "towns.csv" in last and "Rome" in last
    assert str(tmp_path) not in last
    assert [bool(request.tools) for request in requests(model)] == [native] * 3
    kinds = [(each.kind, each.name) for each in trace.spans if each.kind != "lm"]
    assert kinds == [("agent", "agent"), ("tool", "read_file"), ("tool", "calculator")]
    assert trace.state == prediction.state
    state = prediction.state
    assert (state["question"], state["file"], state["correlation_id"]) == ("How many people?", "towns.csv", "thread-1")
    assert (state["final_answer"], state["retry_count"], len(state["turns"])) == ("42", 0, 3)


def test_a_question_without_a_file_or_tools_is_answered_at_once() -> None:
    model = answering(DONE)
    assert build(model)(question="How many?").final_answer == "42"
    assert len(model.requests) == 1


UNUSABLE: dict[str, tuple[list[Answer], str, type[Exception], dict[str, Any]]] = {
    # The adapter asks once more itself: two replies a try.
    "unreadable": ([UNREADABLE, UNREADABLE], "", AdapterParseError, {}),
    "cut off": ([Reply("[[ ## final_answer ## ]]\n4", "length")], "cut off", TruncatedReplyError, {}),
    "empty": (
        [{"final_answer": " ", "final_reasoning_trace": "so"}] * 2,
        "gave no final_answer",
        AdapterParseError,
        {},
    ),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_an_unusable_reply_is_asked_again_with_its_reason(kind: str) -> None:
    replies, reason, _, settings = UNUSABLE[kind]
    model = answering(*replies, DONE)
    with record_trace(Trace("t")) as trace:
        prediction = build(model, **settings)(question="How many?")
    assert prediction.final_answer == "42"
    assert (prediction.state["retry_count"], len(prediction.state["turns"])) == (1, 1)
    asked = [text for _, text in said(requests(model)[-1])][-1]
    assert "How many?" in asked and "Your last reply could not be used: " in asked and reason in asked
    warnings = [each for span in trace.spans for each in span.events if each["name"] == "unusable reply"]
    assert [each.kind for each in trace.spans].count("agent") == 2
    assert warnings == [] or warnings[0]["level"] == "warning"


@pytest.mark.parametrize("kind", UNUSABLE)
@pytest.mark.parametrize("retry_limit", [1, 3])
def test_after_the_retry_limit_the_last_reason_ends_the_question(kind: str, retry_limit: int) -> None:
    replies, _, error, settings = UNUSABLE[kind]
    model = answering(*replies * 10)
    with record_trace(Trace("t")) as trace, pytest.raises(error):
        build(model, retry_limit=retry_limit, **settings)(question="How many?")
    assert len(model.requests) == (1 + retry_limit) * len(replies)
    assert trace.state["retry_count"] == retry_limit


def test_an_agent_that_never_answers_is_not_begun_again() -> None:
    model = answering(*[[SUM]] * 10)
    with pytest.raises(StepLimitError, match="no answer after 1 steps"):
        build(model, max_steps=1)(question="How many?")
    assert len(model.requests) == 2


def test_a_model_that_cannot_be_asked_ends_the_question_at_once() -> None:
    model = answering(LMServerError("down", model="m"))
    with pytest.raises(LMServerError):
        build(model)(question="How many?")
    assert len(model.requests) == 1
