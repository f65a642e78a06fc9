"""Tool that runs Python code in a sandbox; variables last as long as the question.

    await python_repl_tool("x = 20")             # "(no output: print a value, or end the code with an expression)"
    await python_repl_tool("x + 1")              # "21"

Where the code runs is chosen by `tools.sandbox.kind`: see mas/tools/sandbox/ and docs/explanation/sandbox.md.
"""

from mas.runtime.sample_context import current_context
from mas.runtime.untrusted import mark_untrusted
from mas.tools.attachments import list_attachments
from mas.tools.results import ToolError, ToolResult
from mas.tools.sandbox.repl import Interpreter
from mas.tools.sandbox.session import NotAvailableError, Reply, SessionLostError
from mas.tools.sandbox.worker import MAX_OUTPUT_CHARS
from mas.tools.settings import SandboxSettings
from mas.tools.tool_context import get_settings

STATE_KEY = "python"  # in `SampleContext.tool_state`
MAX_CODE_CHARS = 20_000  # a longer text is refused
MAX_TEXT_CHARS = MAX_OUTPUT_CHARS + 3  # with the mark of a cut in the middle
NO_OUTPUT = "(no output: print a value, or end the code with an expression)"


@mark_untrusted
async def python_repl_tool(code: str) -> ToolResult:
    """Run Python code and return what it prints and the value of its last expression, or the traceback.

    Variables and imports stay from call to call. Files attached to the question are in the current folder under their
    bare names, read-only: open("sales.csv"). pandas, numpy, scipy and openpyxl can usually be imported. There is no
    network, no other program can be started, time and memory are limited, and nothing can be installed.

    code: Python source text, such as "import math\\nprint(math.comb(49, 6))".
    """
    text, settings, context = _check(code), get_settings(SandboxSettings), current_context()
    if context is None:
        interpreter = Interpreter(settings, list_attachments())
        try:
            return await _run(interpreter, text)
        finally:
            interpreter.close()
    if STATE_KEY not in context.tool_state:
        interpreter = context.tool_state[STATE_KEY] = Interpreter(settings, list_attachments())
        context.on_close.append(interpreter.close)
    return await _run(context.tool_state[STATE_KEY], text)


def _check(code: str) -> str:
    if not code.strip():
        raise ToolError("The code is empty; write Python such as print(6 * 7).")
    if len(code) > MAX_CODE_CHARS:
        raise ToolError(f"The code has {len(code)} characters; at most {MAX_CODE_CHARS} are run: split it.")
    return code


async def _run(interpreter: Interpreter, code: str) -> ToolResult:
    try:
        return format_reply(await interpreter.run(code))
    except SessionLostError as error:
        raise ToolError(
            f"python was stopped: {error}. All variables are lost; the next call starts a new session: "
            "do less at once, or in another way."
        ) from error
    except NotAvailableError as error:
        raise ToolError(f"python is not available: {error} Answer without running code.") from error


def format_reply(reply: Reply) -> ToolResult:
    """Return the printed text, then the value or the traceback, and how much is missing."""
    missing, parts = reply.missing_chars, list[str]()
    for text in (reply.output, reply.value, reply.error):
        kept = text[:MAX_TEXT_CHARS]  # usually cut already; but the code may have replaced the sandbox's program
        missing += len(text) - len(kept)
        parts += [kept.rstrip("\n")] if kept else []
    parts += [f"[cut: {missing} characters are missing]"] if missing else []
    return ToolResult("\n".join(parts) or NO_OUTPUT, kind="code", truncated=missing > 0)
