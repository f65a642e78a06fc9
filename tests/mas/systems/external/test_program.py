"""Programs around external agents: how a reply is read, and what a question leaves in its trace."""

import asyncio
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import dspy
import pytest

from mas.runtime.errors import AgentReplyError, AgentUnavailableError
from mas.runtime.trace import Trace, record_trace
from mas.systems.external.program import ForeignProgram, Reply, Shared, read_reply

FIELDS = {
    "answer": "second",
    "final_answer": "first",
    "reasoning": "last",
    "reasoning_trace": "middle",
    "final_reasoning_trace": "top",
    7: "page",
}


@pytest.mark.parametrize(
    ("value", "reply"),
    [
        ("so\ud83d", Reply("so?", "", {})),
        (0, Reply("0", "", {})),
        (2.5, Reply("2.5", "", {})),
        (FIELDS, Reply("first", "top", {"7": "page"})),
        ({**FIELDS, "final_answer": None, "final_reasoning_trace": None}, Reply("second", "middle", {"7": "page"})),
        ({"answer": 0, "reasoning": 12, "reasoning_trace": None}, Reply("0", "12", {})),
        ({"answer": "", "reasoning": "a\ud83d"}, Reply("", "a?", {})),
        (dspy.Prediction(answer=1.5, pages=[3]), Reply("1.5", "", {"pages": [3]})),
    ],
    ids=str,
)
def test_a_reply_is_read_from_the_first_of_its_usual_names(value: Any, reply: Reply) -> None:
    assert read_reply(value, "mine") == reply


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "mine returned None; expected a text, or a dict with an answer"),
        (["5"], "mine returned a list; expected a text, or a dict with an answer"),
        ({}, "mine gave no answer; expected the key 'answer', and found: none"),
        ({"answer": None, 3: 1}, "mine gave no answer; expected the key 'answer', and found: answer, 3"),
        ({"answer": ["5"]}, "mine gave a list as its answer; expected a text or a number"),
        ({"final_answer": [], "answer": "5"}, "mine gave a list as its answer; expected a text or a number"),
    ],
    ids=str,
)
def test_what_holds_no_answer_is_described(value: Any, message: str) -> None:
    with pytest.raises(AgentReplyError) as caught:
        read_reply(value, "mine")
    assert str(caught.value) == message


class Scripted(ForeignProgram):
    """Program around a function that has the arguments of `ask`."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__("mine")
        self.function = function

    async def ask(self, question: str, file: Path | None, thread_id: str) -> object:
        return self.function(question, file, thread_id)


def test_an_answer_is_in_the_state_the_trace_and_its_span() -> None:
    asked: list[object] = []

    def agent(*arguments: object) -> dict[str, object]:
        asked.append(arguments)
        asked.append(dict(trace.state))
        return {"answer": 42, "reasoning": "six times seven", "pages": [3]}

    program = Scripted(agent)
    with record_trace(Trace("t")) as trace:
        state = asyncio.run(program.answer_inputs("How many?", Path("/data/sales.csv"), "t-1", {}))
    first = {"question": "How many?", "file": "sales.csv", "correlation_id": "t-1"}
    answers = {"final_answer": "42", "final_reasoning_trace": "six times seven"}
    assert asked == [("How many?", Path("/data/sales.csv"), "t-1"), first]
    assert state == {**first, **answers, "reply": {"pages": [3]}}
    assert trace.answer == "42"
    assert [(each.kind, each.name, each.inputs, each.outputs, each.error) for each in trace.spans] == [
        ("agent", "mine", {"question": "How many?", "file": "sales.csv"}, answers, None)
    ]


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (TimeoutError("socket"), AgentUnavailableError, "mine gave up waiting (TimeoutError: socket)"),
        (KeyError("city"), KeyError, "'city'"),
    ],
)
def test_a_failure_keeps_what_was_asked_and_only_waiting_in_vain_is_renamed(
    error: Exception, expected: type[Exception], message: str
) -> None:
    def agent(*arguments: object) -> object:
        raise error

    with record_trace(Trace("t")) as trace, pytest.raises(expected) as caught:
        asyncio.run(Scripted(agent).answer("How many?", None, "t-1"))
    assert str(caught.value) == message
    assert trace.state == {"question": "How many?", "file": None, "correlation_id": "t-1"}
    assert [(each.outputs, each.error) for each in trace.spans] == [({}, f"{expected.__name__}: {message}")]
    assert not trace.answer


def test_a_shared_value_is_the_same_in_every_copy() -> None:
    value: list[int] = [1]
    shared = Shared(value)
    assert deepcopy(shared) is shared
    assert deepcopy({"a": shared})["a"].value is value
