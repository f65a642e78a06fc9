"""Tool that runs Python code in a sandbox; variables last as long as the question.

    await python("x = 20")             # "(no output: print a value, or end the code with an expression)"
    await python("x + 1")              # "21"

Where the code runs is chosen by `tools.sandbox.kind`: see mas/tools/sandbox/ and docs/explanation/sandbox.md.
"""

from mas.runtime.sample_context import current_context
from mas.runtime.untrusted import mark_untrusted
from mas.tools.attachments import list_attachments
from mas.tools.results import ToolError, ToolResult
from mas.tools.sandbox.interpreter import Cell, Interpreter, TimeSpentError
from mas.tools.sandbox.session import NotAvailableError, SessionLostError
from mas.tools.settings import SandboxSettings
from mas.tools.tool_context import get_settings

STATE_KEY = "python"  # in `SampleContext.tool_state`
MAX_CODE_CHARS = 20_000  # a longer text is refused
FRESH = "[a new Python session: all variables and imports of earlier calls are lost]"
NO_OUTPUT = "(no output: print a value, or end the code with an expression)"


@mark_untrusted
async def python(code: str) -> ToolResult:
    """Run Python code and return what it prints and the value of its last expression, or the traceback.

    Variables and imports stay from call to call. Files attached to the question are in the current folder under their
    bare names, read-only: open("sales.csv"). pandas, numpy, scipy and openpyxl can usually be imported. There is no
    network, no other program can be started, time and memory are limited, and nothing can be installed.

    code: Python source text, such as "import math\\nprint(math.comb(49, 6))".
    """
    settings = get_settings(SandboxSettings)
    text = _check(code)
    context = current_context()
    if context is None:
        interpreter = Interpreter(settings, list_attachments())
        try:
            return await _run(interpreter, text, settings)
        finally:
            interpreter.close()
    if STATE_KEY not in context.tool_state:
        interpreter = context.tool_state[STATE_KEY] = Interpreter(settings, list_attachments())
        context.on_close.append(interpreter.close)
    return await _run(context.tool_state[STATE_KEY], text, settings)


def _check(code: str) -> str:
    if not code.strip():
        raise ToolError("The code is empty; write Python such as print(6 * 7).")
    if len(code) > MAX_CODE_CHARS:
        raise ToolError(f"The code has {len(code)} characters; at most {MAX_CODE_CHARS} are run: split it.")
    return code


async def _run(interpreter: Interpreter, code: str, settings: SandboxSettings) -> ToolResult:
    try:
        cell = await interpreter.run(code)
    except SessionLostError as error:
        raise ToolError(
            f"python was stopped: {error}. All variables are lost; the next call starts a new session: "
            "do less at once, or in another way."
        ) from error
    except NotAvailableError as error:
        raise ToolError(f"python is not available: {error} Answer without running code.") from error
    except TimeSpentError as error:
        allowed = settings.seconds_per_question
        raise ToolError(f"This question has used its {allowed:g} s of python; answer without running code.") from error
    return format_cell(cell, settings.max_output_chars)


def format_cell(cell: Cell, max_chars: int) -> ToolResult:
    """Return the printed text, then the value or the traceback; each cut says how much is missing."""
    reply, parts, truncated = cell.reply, [], False
    if cell.fresh_after_loss:
        parts.append(FRESH)
    shown = ((reply.output, reply.output_cut), (reply.value, reply.value_cut), (reply.error, reply.error_cut))
    for text, missing in shown:
        kept = text[:max_chars]  # usually cut already; but the code may have replaced the sandbox's program
        missing += len(text) - len(kept)
        if kept:
            parts.append(kept.rstrip("\n"))
        if missing:
            truncated = True
            parts.append(f"[cut: {missing} characters are missing]")
    return ToolResult("\n".join(parts) or NO_OUTPUT, kind="code", truncated=truncated)
