"""The computation agent: it writes Python, runs it in the sandbox, and says what came out."""

import ast
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import dspy

from mas.runtime.sample_context import current_context
from mas.runtime.text import parse_python
from mas.runtime.trace import span
from mas.systems.bos.contracts import AgentFailureError, TabularResult, format_data
from mas.systems.bos.recorder import EventRecorder, RecordedAgent
from mas.tools.attachments import list_attachments
from mas.tools.sandbox.repl import Interpreter, format_reply
from mas.tools.sandbox.session import NotAvailableError, SessionLostError, SessionTimeoutError
from mas.tools.sandbox.worker import MAX_OUTPUT_CHARS
from mas.tools.settings import SandboxSettings, get_settings

ALLOWED_IMPORTS = (  # code that imports others is refused
    *("math", "cmath", "statistics", "decimal", "fractions", "datetime", "calendar", "zoneinfo", "itertools"),
    *("functools", "collections", "heapq", "bisect", "operator", "random", "re", "string", "json", "csv", "io"),
    *("typing", "dataclasses", "enum", "numpy", "pandas", "scipy", "openpyxl"),
)
_FORBIDDEN = (
    *("exec", "eval", "compile", "__import__", "breakpoint", "input", "help", "exit", "quit", "__subclasses__"),
    *("__globals__", "__builtins__", "__code__", "__loader__", "__bases__", "__base__", "__mro__"),
)
_SYSTEM_MODULES = (  # which allowed modules have among their own names: random._os, calendar.sys
    *("os", "posix", "sys", "subprocess", "socket", "shutil", "builtins", "importlib", "ctypes", "multiprocessing"),
)
_STOPPED: dict[type[Exception], str] = {
    SessionTimeoutError: "SandboxTimeout",
    SessionLostError: "SandboxViolation",
    NotAvailableError: "ConfigurationError",
}
_RESERVE_CHARS = 500  # of an output, for what is around the captured values
_FENCE = re.compile(r"\A\s*```[\w+-]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_CAPTURE = Path(__file__).parent / "capture.py"


class WriteCode(dspy.Signature):
    """Write Python code that computes what the question asks for."""

    computation_question: str = dspy.InputField()
    context: str = dspy.InputField(desc="date, time and further values of the request")
    earlier_results: str = dspy.InputField(desc="what other agents found, if any")
    modules: str = dspy.InputField(desc="modules that may be imported")
    files: str = dspy.InputField(desc="files in the current folder, if any")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    code: str = dspy.OutputField(desc="Python code whose last expression is the result; empty if none can be written")


class SummarizeComputation(dspy.Signature):
    """Say what the computation has shown."""

    computation_to_summarize: str = dspy.InputField(desc="the question")
    executed_code: str = dspy.InputField()
    outcome: str = dspy.InputField(desc="what the code printed and returned")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    computation_answer: str = dspy.OutputField(desc="the answer to the question, from the outcome alone")


@dataclass(frozen=True)
class Execution:
    """Outcome of one execution. It comes from the code's own process, and cannot be trusted."""

    text: str  # printed, then the value or the traceback; each cut is said
    error: str = ""  # the traceback; empty after success
    output: str = ""  # printed
    value: object = None  # of the last expression, or of the variable `result`; None if it is a table
    variables: Mapping[str, object] = field(default_factory=dict)
    table: TabularResult | None = None

    @property
    def error_line(self) -> str:
        """The last line of the traceback, such as "ZeroDivisionError: division by zero"."""
        return self.error.strip().rpartition("\n")[2].strip()


@dataclass(frozen=True)
class ComputationAgent(RecordedAgent):
    """Stateless agent."""

    name = "computation"

    predictors: Mapping[str, dspy.Predict]

    async def answer(self, question: str, recorder: EventRecorder) -> tuple[str, TabularResult | None]:
        reply = await recorder.call(
            self.predictors["compute_code"],
            computation_question=question,
            modules=", ".join(ALLOWED_IMPORTS),
            files=", ".join(list_attachments()) or "none",
        )
        text = str(reply.code or "")
        fenced = _FENCE.match(text)
        code = fenced[1] if fenced else text
        recorder.add("DECISION", "Computation code was written", code=code)
        execution = await self._run(code, recorder)
        answer = await recorder.ask(
            self.predictors["compute_summarize"],
            "computation_answer",
            "Outcome could not be summarised",
            computation_to_summarize=question,
            executed_code=code,
            outcome=format_data("python_repl_tool", execution.text),
        )
        return answer or execution.text, execution.table

    async def _run(self, code: str, recorder: EventRecorder) -> Execution:
        """Run code; AgentFailureError: it is refused, stopped or fails."""
        details = {"code": code}
        if not code.strip():
            raise AgentFailureError("PlanningDeclined", "no code can be written for this question", details)
        if violation := find_violation(code):
            raise AgentFailureError("SandboxViolation", violation, details)
        if sample := current_context():
            sample.count_tool_call()
        started = time.perf_counter()
        try:
            with span("tool", "python_repl_tool", inputs={"code": code}) as current:
                execution = await execute(code, get_settings(SandboxSettings), list_attachments())
                current.outputs = {"observation": execution.text}
        except (SessionTimeoutError, SessionLostError, NotAvailableError) as error:
            raise AgentFailureError(_STOPPED[type(error)], str(error), details) from error
        recorder.add(
            "TOOL",
            "Executed code",
            elapsed_ms=(time.perf_counter() - started) * 1000,
            succeeded=not execution.error,
            stdout=execution.output,
            value=execution.value,
            locals=execution.variables,
            row_count=execution.table.row_count if execution.table else None,
        )
        if execution.error:
            kind = execution.error_line.partition(":")[0].rpartition(".")[2]
            raise AgentFailureError(kind if kind.isidentifier() else "CodeError", execution.error_line, details)
        return execution


def find_violation(code: str) -> str | None:
    """Return what the code may not do, or None: imports are from a list, functions only calculate.

    The sandbox is what shuts the code in. This check refuses early and says why.
    """
    try:
        nodes = list(ast.walk(parse_python(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the sandbox shows the error with its line
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names}
    for node in nodes:
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            modules = [node.module or ".", *(name for name in names if name.lstrip("_") in _SYSTEM_MODULES)]
        for module in modules:
            if module.partition(".")[0] not in ALLOWED_IMPORTS:
                return f"the module {module} may not be imported; allowed: {', '.join(ALLOWED_IMPORTS)}"
        used = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if used in _FORBIDDEN:
            return f"{used} may not be used"
        if isinstance(node, ast.Attribute) and used.lstrip("_") in _SYSTEM_MODULES:
            path = ast.unparse(node)
            if path.partition(".")[0] in imported:
                return f"{path} may not be used: it reaches a module that may not be imported"
    return None


async def execute(code: str, settings: SandboxSettings, files: Mapping[str, Path] | None = None) -> Execution:
    """Run the code in a sandbox of its own; `_STOPPED` has the errors of one that was stopped."""
    interpreter = Interpreter(settings, files or {})
    try:
        reply = await interpreter.run(code)
        text = str(format_reply(reply))
        if reply.error:
            return Execution(text, error=reply.error, output=reply.output)
        call = f"_mas_capture(globals(), {bool(reply.value)}, {MAX_OUTPUT_CHARS - _RESERVE_CHARS})"
        try:
            captured = (await interpreter.run(f"{_CAPTURE.read_text('utf-8')}\nprint({call})")).output
        except SessionLostError:  # the code has left something running; what it printed is known
            captured = ""
    finally:
        interpreter.close()
    value, variables, table = read_capture(captured)
    shown = value if value is not None else reply.value or None
    return Execution(text, output=reply.output, value=shown, variables=variables, table=table)


def read_capture(text: str) -> tuple[object, Mapping[str, object], TabularResult | None]:
    """Return value, variables and table; nothing of a text that is none of ours."""
    try:
        outcome = json.loads(text)
        table = outcome["table"]
        if table is not None:
            table = TabularResult.from_lists(list(map(str, table["columns"])), table["rows"], table["truncated"])
        return outcome["value"], dict(outcome["locals"]), table
    except (ValueError, TypeError, KeyError, RecursionError):
        return None, {}, None
