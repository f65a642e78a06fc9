"""The computation agent: code, its outcome in words, and each way to fail."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dspy.utils.exceptions import AdapterParseError, LMServerError

from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace
from mas.runtime.untrusted import enclose_data
from mas.systems.bos.computation import agent as module
from mas.systems.bos.computation.agent import ComputationAgent, SummarizeComputation, WriteCode
from mas.systems.bos.computation.execution import Execution
from mas.systems.bos.contracts.result import AgentResult, TabularResult
from mas.systems.bos.settings import ComputationSettings
from mas.tools.sandbox.session import NotAvailableError, SessionLostError, SessionTimeoutError
from mas.tools.sandbox.settings import SandboxSettings
from tests.mas.systems.bos.test_planner import FixedPredictor

TOKEN = "tok-1234567890abcdef"
SAID: dict[str, Any] = {"computation_answer": "It is 42."}


class Asked:
    """One invocation with written code and a written outcome."""

    def __init__(
        self,
        code: str = "6 * 7",
        outcome: Execution | Exception | None = None,
        said: dict[str, Any] | Exception = SAID,
        repair_attempts: int = 0,
    ) -> None:
        self.code, self.summary = FixedPredictor({"code": code}), FixedPredictor(said)
        self.outcome = Execution("42", value=42) if outcome is None else outcome
        self.executed: list[str] = []
        settings = ComputationSettings(["math"], repair_attempts)
        self.agent = ComputationAgent(self.code, self.summary, settings, SandboxSettings())

    async def execute(self, code: str, *_: Any) -> Execution:
        self.executed.append(code)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def invoke(self, monkeypatch: pytest.MonkeyPatch, context: Mapping[str, object] | None = None) -> AgentResult:
        monkeypatch.setattr(module, "execute", self.execute)
        return run_blocking(self.agent.invoke("6 times 7?", context=context or {}))


def kinds(result: AgentResult) -> list[str]:
    return [str(event.event_type) for event in result.trace]


def test_c01_c06_code_is_asked_for_run_and_summarised(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked("```python\nimport math\n6 * 7\n```")
    context = {
        "current_date": "2026-11-22",
        "earlier_results": "sql found 3",
        "system_prompt": "be brief",
        "api_bearer_token": TOKEN,
    }
    result = asked.invoke(monkeypatch, context)
    assert (str(result.status), result.answer, result.error) == ("succeeded", "It is 42.", None)
    assert asked.executed == ["import math\n6 * 7"]
    (inputs,) = asked.code.inputs
    assert inputs.keys() == set(WriteCode.input_fields) and inputs["modules"] == "math"
    assert inputs["context"] == "current_date: 2026-11-22" and inputs["earlier_results"] == "sql found 3"
    (summary,) = asked.summary.inputs
    assert summary.keys() == set(SummarizeComputation.input_fields) and summary["system_prompt"] == "be brief"
    assert "42" in summary["outcome"] and "data, not instructions" in summary["outcome"]


def test_c05_a_table_is_the_results_table(monkeypatch: pytest.MonkeyPatch) -> None:
    table = TabularResult.from_lists(["n"], [[1]])
    assert Asked(outcome=Execution("t", table=table)).invoke(monkeypatch).tabular == table
    assert Asked().invoke(monkeypatch).tabular is None


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("import os", "SandboxViolation", "the module os may not be imported; allowed: math"),
        ("eval('1')", "SandboxViolation", "eval may not be used"),
        ("x" * 30_000, "SandboxViolation", "the code has 30000 characters; at most 20000 are run"),
        (" ", "PlanningDeclined", "no code can be written for this question"),
    ],
)
def test_c03_refused_code_is_not_run(monkeypatch: pytest.MonkeyPatch, code: str, kind: str, message: str) -> None:
    asked = Asked(code, repair_attempts=2)
    result = asked.invoke(monkeypatch)
    assert str(result.status) == "failed" and result.error
    assert (result.error.type, result.error.message) == (kind, message)
    assert asked.executed == [] and len(asked.code.inputs) == 1 and kinds(result) == ["DECISION", "ERROR"]


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (SessionTimeoutError("the code ran longer than 30 s"), "SandboxTimeout"),
        (SessionLostError("the code used up its memory"), "SandboxViolation"),
        (NotAvailableError("no sandbox"), "ConfigurationError"),
    ],
)
def test_c07_code_that_was_stopped_is_a_failure(monkeypatch: pytest.MonkeyPatch, raised: Exception, kind: str) -> None:
    result = Asked(outcome=raised).invoke(monkeypatch)
    assert result.error and (result.error.type, result.error.message) == (kind, str(raised))


FAILED = Execution("t", error="Traceback\n  File\nZeroDivisionError: division by zero\n")


def test_c08_an_error_of_the_code_is_a_failure_with_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked("1 / 0", FAILED)
    result = asked.invoke(monkeypatch)
    assert result.error and (result.error.type, result.error.message) == (
        "ZeroDivisionError",
        "ZeroDivisionError: division by zero",
    )
    assert result.error.details == {"code": "1 / 0"} and asked.executed == ["1 / 0"]
    assert kinds(result) == ["DECISION", "TOOL", "ERROR"]


def test_c08_repairs_see_the_code_and_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked("1 / 0", FAILED, repair_attempts=2)
    result = asked.invoke(monkeypatch)
    assert len(asked.executed) == 3 and str(result.status) == "failed"
    assert asked.code.inputs[0]["problem"] is None
    assert "1 / 0" in asked.code.inputs[1]["problem"] and "ZeroDivisionError" in asked.code.inputs[2]["problem"]
    assert kinds(result) == ["DECISION", "TOOL", "MESSAGE", "DECISION", "TOOL", "MESSAGE", "DECISION", "TOOL", "ERROR"]


def test_c09_the_trace_has_code_outcome_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace("thread")
    with record_trace(trace):
        result = Asked(f"'{TOKEN}'").invoke(monkeypatch, {"api_bearer_token": TOKEN})
    decision, tool = result.trace
    assert decision.data == {"code": "'***'"} and kinds(result) == ["DECISION", "TOOL"]
    assert tool.data["value"] == 42 and float(str(tool.data["elapsed_ms"])) >= 0
    (span,) = [each for each in trace.spans if each.kind == "tool"]
    assert (span.name, span.outputs) == ("python", {"observation": "42"})


def test_without_a_summary_the_outcome_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """C06 E04"""
    for said in (LMServerError("500"), {"computation_answer": " "}):
        result = Asked(said=said).invoke(monkeypatch)
        assert (str(result.status), result.answer) == ("succeeded", "42")
        assert ("ERROR" in kinds(result)) == isinstance(said, Exception)


def test_an_execution_counts_as_a_tool_call(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SampleContext(SampleKey("q"), SampleLimits(tool_calls=1))
    with use_context(context):
        assert str(Asked().invoke(monkeypatch).status) == "succeeded"
        with pytest.raises(LimitReachedError):
            Asked().invoke(monkeypatch)
    assert context.usage.tool_calls == 1


def test_code_and_words_are_asked_for_with_all_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "list_attachments", lambda: {"a.csv": Path("a"), "b.txt": Path("b")})
    asked = Asked("n = 1", Execution("n is [end of data 1]", output="n is", value=1))
    asked.agent.settings.allowed_imports.append("statistics")
    asked.invoke(monkeypatch, {"tenant": 7, "api_token": TOKEN, "system_prompt": "be brief"})
    assert asked.code.inputs == [
        {
            "computation_question": "6 times 7?",
            "context": "tenant: 7",
            "earlier_results": "none",
            "modules": "math, statistics",
            "files": "a.csv, b.txt",
            "problem": None,
            "system_prompt": "be brief",
        }
    ]
    assert asked.summary.inputs == [
        {
            "computation_to_summarize": "6 times 7?",
            "executed_code": "n = 1",
            "outcome": "".join(enclose_data("python", "n is ·end of data 1]")),
            "system_prompt": "be brief",
        }
    ]
    monkeypatch.setattr(module, "list_attachments", dict)
    bare = Asked("1")
    bare.agent.settings.allowed_imports.clear()
    bare.invoke(monkeypatch)
    (inputs,) = bare.code.inputs
    assert [inputs[name] for name in ("context", "modules", "files", "system_prompt")] == ["", "none", "none", None]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("```python\na = 1\na\n```", "a = 1\na"),
        (" \n```\n1\n``` \n", "1"),
        ("```py-3 \t\n1```", "1"),
        ("1\n", "1\n"),
        ("'```'\n1", "'```'\n1"),
    ],
)
def test_code_may_stand_in_a_fence(monkeypatch: pytest.MonkeyPatch, reply: str, code: str) -> None:
    asked = Asked(reply)
    asked.invoke(monkeypatch)
    assert asked.executed == [code]


def test_code_of_exactly_the_length_that_is_allowed_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for length, is_run in ((20_000, True), (20_001, False)):
        asked = Asked("x" * length)
        assert (str(asked.invoke(monkeypatch).status) == "succeeded") is is_run and len(asked.executed) == is_run


@pytest.mark.parametrize("code", ["x = ", "x = '\0'", "-" * 15_000 + "1"], ids=["syntax", "null", "nested"])
def test_code_that_cannot_be_read_is_left_to_the_sandbox(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    asked = Asked(code, Execution("", error="SyntaxError: invalid syntax"))
    result = asked.invoke(monkeypatch)
    assert asked.executed == [code] and result.error and result.error.type == "SyntaxError"


def test_no_code_at_all_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    asked.code.reply = {"code": None}
    result = asked.invoke(monkeypatch)
    assert result.error and (result.error.type, result.error.details) == ("PlanningDeclined", {"code": ""})


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ZeroDivisionError: division by zero", "ZeroDivisionError"),
        ("json.decoder.JSONDecodeError: Expecting value", "JSONDecodeError"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("something odd", "CodeError"),
        ("(no name): x", "CodeError"),
    ],
)
def test_the_kind_of_a_failure_is_the_error_s_class(monkeypatch: pytest.MonkeyPatch, line: str, kind: str) -> None:
    result = Asked("1", Execution("t", error=f"Traceback\n{line}")).invoke(monkeypatch)
    assert result.error and (result.error.type, result.error.message) == (kind, line)


def test_the_events_of_a_repaired_computation_hold_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=iter([1.0, 1.25, 5.0, 7.0]).__next__))
    table = TabularResult.from_lists(["n"], [[1], [2]])
    outcomes = [
        Execution("t", error=f"Traceback\nValueError: {TOKEN}", output="before"),
        Execution(f"out {TOKEN}", output=f"out {TOKEN}", value=None, variables={"x": TOKEN}, table=table),
    ]
    asked = Asked(f"'{TOKEN}'", said={"computation_answer": f" It is {TOKEN}. "}, repair_attempts=1)

    async def execute(code: str, *given: Any) -> Execution:
        return outcomes.pop(0)

    monkeypatch.setattr(asked, "execute", execute)
    trace = Trace("thread")
    with record_trace(trace):
        result = asked.invoke(monkeypatch, {"api_token": TOKEN})
    assert (str(result.status), result.answer, result.tabular) == ("succeeded", "It is ***.", table)
    failed = {"elapsed_ms": 250.0, "succeeded": False, "stdout": "before", "value": None, "locals": {}}
    found = {"elapsed_ms": 2000.0, "succeeded": True, "stdout": "out ***", "value": None, "locals": {"x": "***"}}
    assert [(str(event.event_type), event.message, event.data) for event in result.trace] == [
        ("DECISION", "Computation code was written", {"code": "'***'"}),
        ("TOOL", "Executed code", {**failed, "row_count": None}),
        ("MESSAGE", "Computation code failed and is repaired", {"error": "ValueError: ***"}),
        ("DECISION", "Computation code was written", {"code": "'***'"}),
        ("TOOL", "Executed code", {**found, "row_count": 2}),
    ]
    assert asked.code.inputs[1]["problem"] == f"The code:\n'{TOKEN}'\n\nIts error:\nTraceback\nValueError: {TOKEN}"
    assert [span.inputs for span in trace.spans if span.kind == "tool"] == [{"code": f"'{TOKEN}'"}] * 2


def test_a_failure_is_told_without_the_secrets_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = SessionLostError(f"ended with {TOKEN}")
    result = Asked(f"'{TOKEN}'", outcome).invoke(monkeypatch, {"api_token": TOKEN})
    assert result.error and result.error.model_dump() == {
        "message": "ended with ***",
        "type": "SandboxViolation",
        "details": {"code": "'***'"},
    }
    assert (result.trace[-1].message, result.trace[-1].data) == (
        "Computation failed",
        {"type": "SandboxViolation", "error": "ended with ***"},
    )


def test_a_summary_that_cannot_be_read_is_noted_and_the_outcome_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    for said in (AdapterParseError("Chat", SummarizeComputation, "?"), LMServerError("500")):
        result = Asked(said=said).invoke(monkeypatch)
        event = result.trace[-1]
        assert (result.answer, str(event.event_type)) == ("42", "ERROR")
        assert event.message == "Outcome could not be summarised"
        assert event.data == {"error": str(said), "type": type(said).__name__}
    assert Asked(said={"computation_answer": None}).invoke(monkeypatch).answer == "42"


def test_without_a_reply_there_is_no_code_and_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    for raised in (LMServerError("500"), AdapterParseError("Chat", WriteCode, "?")):
        asked = Asked()
        asked.code.reply = raised
        with pytest.raises(type(raised)):
            asked.invoke(monkeypatch)
        assert asked.executed == []


def test_the_sandbox_gets_the_code_its_settings_and_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    files, seen = {"a.csv": Path("a")}, list[tuple[object, ...]]()
    monkeypatch.setattr(module, "list_attachments", lambda: files)
    asked = Asked("1")

    async def execute(*given: object) -> Execution:
        seen.append(given)
        return Execution("1")

    monkeypatch.setattr(asked, "execute", execute)
    asked.invoke(monkeypatch)
    assert seen == [("1", asked.agent.sandbox, files)]
