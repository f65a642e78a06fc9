"""The computation agent: code, its outcome in words, and each way to fail."""

from collections.abc import Mapping
from typing import Any

import pytest
from dspy.utils.exceptions import LMServerError

from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace
from mas.systems.bos.computation import agent as module
from mas.systems.bos.computation.agent import ComputationAgent, Execution, SummarizeComputation, WriteCode
from mas.systems.bos.contracts import AgentResult, TabularResult
from mas.tools.sandbox.session import NotAvailableError, SessionLostError, SessionTimeoutError
from tests.mas.systems.bos.building import own_events
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
    ) -> None:
        self.code, self.summary = FixedPredictor({"code": code}, WriteCode), FixedPredictor(said, SummarizeComputation)
        self.outcome = Execution("42", value=42) if outcome is None else outcome
        self.executed: list[str] = []
        predictors: Any = {"compute_code": self.code, "compute_summarize": self.summary}
        self.agent = ComputationAgent(predictors)

    async def execute(self, code: str, *_: Any) -> Execution:
        self.executed.append(code)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def invoke(self, monkeypatch: pytest.MonkeyPatch, context: Mapping[str, object] | None = None) -> AgentResult:
        monkeypatch.setattr(module, "execute", self.execute)
        return run_blocking(self.agent.invoke("6 times 7?", context=context or {}))


def kinds(result: AgentResult) -> list[str]:
    return [str(event.event_type) for event in own_events(result)]


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
    assert inputs.keys() == set(WriteCode.input_fields) and inputs["modules"].startswith("math, ")
    assert inputs["computation_question"] == "6 times 7?"
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
        ("import os", "SandboxViolation", "the module os may not be imported"),
        ("eval('1')", "SandboxViolation", "eval may not be used"),
        (" ", "PlanningDeclined", "no code can be written for this question"),
    ],
)
def test_c03_refused_code_is_not_run(monkeypatch: pytest.MonkeyPatch, code: str, kind: str, message: str) -> None:
    asked = Asked(code)
    result = asked.invoke(monkeypatch)
    assert str(result.status) == "failed" and result.error
    assert (result.error.type, result.error.message.partition(";")[0]) == (kind, message)
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


def test_c09_the_trace_has_code_outcome_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace("thread")
    with record_trace(trace):
        result = Asked(f"'{TOKEN}'").invoke(monkeypatch, {"api_bearer_token": TOKEN})
    decision, tool = own_events(result)
    assert decision.data == {"code": "'***'"} and kinds(result) == ["DECISION", "TOOL"]
    assert tool.data["value"] == 42 and float(str(tool.data["elapsed_ms"])) >= 0
    (span,) = [each for each in trace.spans if each.kind == "tool"]
    assert (span.name, span.outputs) == ("python_repl_tool", {"observation": "42"})


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
