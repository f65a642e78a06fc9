"""The single agent's program alone: each try, what is kept of it, and what ends the question."""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from mas.agents.react import StepLimitError, Toolbox
from mas.runtime.lm_errors import EmptyReplyError, TruncatedReplyError
from mas.runtime.trace import Trace, record_trace
from mas.systems.single_agent import program as single_agent
from mas.systems.single_agent.program import Answer, SingleAgentProgram
from mas.systems.single_agent.system import SPECS

TURNS: list[dict[str, Any]] = [{"question_to_answer": "How many?", "final_answer": "42"}]
NO_ANSWER = "The reply called no tool and gave no final_answer."


def prediction(answer: str | None, reasoning: str | None = "so it is") -> dspy.Prediction:
    return dspy.Prediction(final_answer=answer, final_reasoning_trace=reasoning)


def outcomes(monkeypatch: pytest.MonkeyPatch, *each: Any) -> AsyncMock:
    """What the agent's tries come to, one after the other: an error, or the last prediction."""
    react = AsyncMock(side_effect=[one if isinstance(one, Exception) else (TURNS, one) for one in each])
    monkeypatch.setattr(single_agent, "react", react)
    return react


def ask(
    retry_limit: int = 2, question: str = "How many?", file: Path | None = Path("/data/towns.csv")
) -> tuple[Any, Trace, list[dict[str, Any]], SingleAgentProgram]:
    """The final state (or the error), the trace, each state that was kept, and the program."""
    program = SingleAgentProgram(SPECS, {"agent": Toolbox(max_steps=3)}, retry_limit)
    states: list[dict[str, Any]] = []
    trace = Trace("thread-1", observer=lambda span: states.append(dict(trace.state)))
    with record_trace(trace):
        try:
            found: Any = asyncio.run(program.answer(question, file, "thread-1"))
        except (AdapterParseError, StepLimitError, RuntimeError, ValueError) as error:
            found = error
    return found, trace, states, program


FIRST: dict[str, Any] = {
    "question": "How many?",
    "file": "towns.csv",
    "correlation_id": "thread-1",
    "turns": [],
    "retry_count": 0,
    "feedback": "",
    "final_answer": "",
    "final_reasoning_trace": "",
}


@pytest.mark.parametrize(("file", "name"), [(Path("/data/towns.csv"), "towns.csv"), (None, None)])
def test_the_first_usable_reply_is_the_answer(
    monkeypatch: pytest.MonkeyPatch, file: Path | None, name: str | None
) -> None:
    react = outcomes(monkeypatch, prediction("42"))
    state, trace, states, program = ask(file=file)
    first = {**FIRST, "file": name}
    assert state == {**first, "turns": TURNS, "final_answer": "42", "final_reasoning_trace": "so it is"}
    assert states[0] == first
    assert trace.answer == "42"
    react.assert_awaited_once_with(
        program.agent, {"question_to_answer": "How many?", "file": name}, [], program.toolboxes["agent"]
    )
    (span,) = trace.spans
    assert (span.kind, span.name, span.inputs, span.events) == ("agent", "agent", {"request": "How many?"}, [])
    assert span.outputs == {"final_answer": "42", "final_reasoning_trace": "so it is"}


def test_reasoning_that_was_left_out_is_an_empty_text(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes(monkeypatch, prediction(" 42 ", None))
    state, trace, _, _ = ask()
    assert (state["final_answer"], state["final_reasoning_trace"], trace.answer) == (" 42 ", "", " 42 ")


LONG = "x" * 5_000


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (EmptyReplyError("nothing came"), "nothing came"),
        (TruncatedReplyError("cut off"), "cut off"),
        (StepLimitError("no answer after 3 steps of tool calls"), "no answer after 3 steps of tool calls"),
        (StepLimitError(LONG), LONG[:1_500]),
        (prediction(""), None),
        (prediction(" \n"), None),
        (prediction(None), None),
    ],
)
def test_after_an_unusable_reply_a_new_conversation_begins_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, bad: Any, reason: str | None
) -> None:
    react = outcomes(monkeypatch, bad, prediction("42"))
    state, trace, states, _ = ask()
    feedback = state["feedback"]
    assert feedback == reason if reason is not None else NO_ANSWER in feedback
    assert state == {
        **FIRST,
        "turns": TURNS,
        "retry_count": 1,
        "feedback": feedback,
        "final_answer": "42",
        "final_reasoning_trace": "so it is",
    }
    assert states[-1] == {**FIRST, "retry_count": 1, "feedback": feedback}
    assert [(call.args[1]["question_to_answer"], call.args[2]) for call in react.await_args_list] == [
        ("How many?", []),
        (f"How many?\n\nYour last reply could not be used: {feedback}", []),
    ]
    failed, good = trace.spans
    assert failed.error is not None and failed.outputs == {}
    assert good.error is None and good.outputs["final_answer"] == "42"


def test_only_the_newest_reason_is_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    react = outcomes(monkeypatch, StepLimitError("first"), StepLimitError("second"), prediction("42"))
    state, _, _, _ = ask()
    assert (state["retry_count"], state["feedback"]) == (2, "second")
    asked = react.await_args_list[2].args[1]["question_to_answer"]
    assert asked == "How many?\n\nYour last reply could not be used: second"


def test_a_retry_is_told_as_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[tuple[str, str, dict[str, Any]]] = []
    outcomes(monkeypatch, StepLimitError("first"), prediction("42"))
    program = SingleAgentProgram(SPECS, {"agent": Toolbox()}, 1)
    with record_trace(Trace("t", listener=lambda level, name, fields: logged.append((level, name, fields)))):
        asyncio.run(program.answer("How many?", None, "t"))
    told = [(level, fields) for level, name, fields in logged if name == "unusable reply"]
    assert told == [("warning", {"agent": "agent", "error": "first"})]


@pytest.mark.parametrize("retry_limit", [0, 1, 2])
def test_the_error_of_the_last_try_ends_the_question(monkeypatch: pytest.MonkeyPatch, retry_limit: int) -> None:
    errors = [StepLimitError(str(number)) for number in range(5)]
    react = outcomes(monkeypatch, *errors)
    error, trace, _, _ = ask(retry_limit)
    assert error is errors[retry_limit]
    assert react.await_count == retry_limit + 1
    assert trace.state == {**FIRST, "retry_count": retry_limit, "feedback": str(retry_limit - 1) if retry_limit else ""}
    assert trace.answer is None


def test_a_reply_without_an_answer_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes(monkeypatch, prediction(" "))
    error, _, _, program = ask(retry_limit=0)
    assert isinstance(error, AdapterParseError)
    assert (error.adapter_name, error.signature, error.lm_response) == (
        "single_agent",
        program.agent.signature,
        "",
    )
    assert NO_ANSWER in str(error)


def test_any_other_error_ends_the_question_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    down = RuntimeError("down")
    react = outcomes(monkeypatch, down, prediction("42"))
    assert ask()[0] is down
    assert react.await_count == 1


@pytest.mark.parametrize("question", ["", " \n"])
def test_an_empty_question_is_not_asked(monkeypatch: pytest.MonkeyPatch, question: str) -> None:
    react = outcomes(monkeypatch, prediction("42"))
    error, trace, _, _ = ask(question=question)
    assert isinstance(error, ValueError) and "no question was given" in str(error)
    assert (react.await_count, trace.state) == (0, {})


def test_the_program_has_the_one_predictor_with_its_fields() -> None:
    program = SingleAgentProgram(SPECS, {}, 3)
    assert [(name, each.signature) for name, each in program.named_predictors()] == [("agent", Answer)]
    assert (program.retry_limit, program.toolboxes) == (3, {})
    assert list(Answer.input_fields) == ["question_to_answer", "file", "history", "tools"]
    assert list(Answer.output_fields) == ["tool_calls", "final_answer", "final_reasoning_trace"]
