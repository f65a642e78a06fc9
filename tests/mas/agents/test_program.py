"""The base of all programs: the state, the attachment and the id that an answer gets, and what comes back."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from mas.agents.program import AgentProgram, State, check_question
from mas.runtime.trace import Trace, record_trace


class Echo(AgentProgram):
    async def answer(self, question: str, file: Path | None, thread_id: str) -> State:
        return {"final_answer": question, "final_reasoning_trace": "so", "file": file, "correlation_id": thread_id}


class Named(AgentProgram):
    async def answer_inputs(self, question: str, file: Path | None, thread_id: str, inputs: Mapping[str, str]) -> State:
        return {"final_answer": question, "final_reasoning_trace": "", "inputs": inputs}


def test_a_prediction_has_the_whole_state_and_the_trace_has_it_too() -> None:
    with record_trace(Trace("thread-1")) as trace:
        prediction = Echo()(question="q", file="data/towns.csv", inputs={"ignored": "x"})
    state = {
        "final_answer": "q",
        "final_reasoning_trace": "so",
        "file": Path("data/towns.csv"),
        "correlation_id": "thread-1",
    }
    assert dict(prediction.items()) == {"final_answer": "q", "final_reasoning_trace": "so", "state": state}
    assert trace.state == state


@pytest.mark.parametrize("file", [None, ""])
def test_without_a_trace_or_a_file_a_question_has_a_new_id_and_none(file: str | None) -> None:
    first, second = (Echo()(question="q", file=file).state for _ in range(2))
    assert first["file"] is None
    assert re.fullmatch("[0-9a-f]{32}", first["correlation_id"])
    assert first["correlation_id"] != second["correlation_id"]


def test_named_inputs_reach_the_program_that_wants_them() -> None:
    assert Named()(question="q", inputs={"title": "t"}).state["inputs"] == {"title": "t"}
    assert Named()(question="q").state["inputs"] == {}


def test_a_program_without_an_answer_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"^AgentProgram overrides neither answer nor answer_inputs$"):
        AgentProgram()(question="q")


def test_toolboxes_are_copied() -> None:
    given = {"agent": object()}
    program = Echo((), given)  # type: ignore[arg-type]
    assert program.toolboxes == given and program.toolboxes is not given
    assert Echo().toolboxes == {}


@pytest.mark.parametrize("question", ["", " ", "\n\t"])
def test_an_empty_question_is_refused(question: str) -> None:
    with pytest.raises(ValueError, match=r"^no question was given to the system; expected some text$"):
        check_question(question)
    check_question(f"{question}?")
