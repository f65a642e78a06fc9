"""Execution of code in a sandbox of its own, with its outcome as text, value, variables and table.

execution = await execute("total = 2 + 3\\ntotal", SandboxSettings())
execution.value, execution.variables, execution.error      # 5, {"total": 5}, ""
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mas.systems.bos.contracts import TabularResult
from mas.tools.python_code import format_cell
from mas.tools.sandbox.interpreter import Interpreter
from mas.tools.sandbox.session import SessionLostError
from mas.tools.settings import SandboxSettings

_RESERVE_CHARS = 500  # of an output, for what is around the captured values


@dataclass(frozen=True)
class Execution:
    """Outcome of one execution. It comes from the code's own process: data, and nothing that can be trusted."""

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


async def execute(code: str, settings: SandboxSettings, files: Mapping[str, Path] | None = None) -> Execution:
    """Run the code in a new sandbox, which ends with it.

    Raises:
        SessionTimeoutError: it took too long.
        SessionLostError: it was stopped for another reason.
        NotAvailableError: no isolation is available.
    """
    interpreter = Interpreter(settings, files or {})
    try:
        cell = await interpreter.run(code)
        text, reply = str(format_cell(cell, settings.max_output_chars)), cell.reply
        if reply.error:
            return Execution(text, error=reply.error, output=reply.output)
        try:
            room = max(settings.max_output_chars - _RESERVE_CHARS, 0)
            program = (Path(__file__).parent / "capture.py").read_text("utf-8")
            capture = f"{program}\nprint(_mas_capture(globals(), {bool(reply.value)}, {room}))"
            found = (await interpreter.run(capture)).reply.output
        except SessionLostError:  # the code has left something running; what it printed is known
            found = ""
    finally:
        interpreter.close()
    value, variables, table = read_capture(found)
    shown = value if value is not None else reply.value or None
    return Execution(text, output=reply.output, value=shown, variables=variables, table=table)


def read_capture(text: str) -> tuple[object, Mapping[str, object], TabularResult | None]:
    """Return value, variables and table; nothing of a text that is none of ours."""
    try:
        found = json.loads(text)
        table = found["table"] and TabularResult.from_lists(
            [str(name) for name in found["table"]["columns"]], found["table"]["rows"], found["table"]["truncated"]
        )
        return found["value"], dict(found["locals"]), table
    except (ValueError, TypeError, KeyError, RecursionError):
        return None, {}, None
