"""Tool that runs Python code, in the strongest isolation that works on this machine; see docs/explanation/sandbox.md.

await python_repl_tool("x = 20")     # "(no output: print a value, or end the code with an expression)"
await python_repl_tool("x + 1")      # "21": variables last as long as the question
"""

import asyncio
import functools
from contextlib import closing

from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import current_context
from mas.runtime.untrusted import mark_untrusted
from mas.tools.attachments import list_attachments
from mas.tools.results import ToolError, ToolResult
from mas.tools.sandbox.deno import DenoSession
from mas.tools.sandbox.jail import JailSession
from mas.tools.sandbox.session import OVER, Files, NotAvailableError, Reply, Session, SessionLostError
from mas.tools.sandbox.worker import MAX_OUTPUT_CHARS
from mas.tools.settings import AUTO, SandboxSettings, get_settings

STATE_KEY = "python"  # in `SampleContext.tool_state`
MAX_CODE_CHARS = 20_000  # a longer text is refused
MAX_TEXT_CHARS = MAX_OUTPUT_CHARS + 3  # with the mark of a cut in the middle
NO_OUTPUT = "(no output: print a value, or end the code with an expression)"

ISOLATIONS: tuple[type[Session], ...] = (JailSession, DenoSession)  # the better one first


@functools.cache
def try_isolations(kind: str) -> tuple[type[Session] | None, tuple[str, ...]]:
    """Return the first isolation of this kind that runs a program, and the reasons against the better ones.

    If none does, none is returned, and never a weaker one.
    """
    refused: list[str] = []
    for isolation in ISOLATIONS:
        if kind in (AUTO, isolation.name):
            try:
                run_blocking(isolation.open({}, SandboxSettings())).close()
                return isolation, tuple(refused)
            except NotAvailableError as error:
                refused.append(str(error))
    return None, tuple(refused)


class Interpreter:
    """Interpreter that keeps variables from call to call; its first call opens a session, and the next after a loss."""

    def __init__(self, settings: SandboxSettings, files: Files) -> None:
        self._settings, self._files = settings, files
        self._session: Session | None = None
        self._is_closed = False
        self._one_at_a_time = asyncio.Lock()

    async def run(self, code: str) -> Reply:
        """Run code and return what it prints and its value.

        Raises:
            SessionLostError: the code was stopped and its variables are lost; the message says why.
            NotAvailableError: no isolation is available.
        """
        async with self._one_at_a_time:
            session = await self._open_session()
            try:
                return await session.run(code, self._settings.seconds_per_call)
            except BaseException:
                self._session = None
                raise

    async def _open_session(self) -> Session:
        if self._session is None and not self._is_closed:
            isolation, refused = await asyncio.to_thread(try_isolations, self._settings.kind)
            if isolation is None:
                reasons = refused or ("tools.sandbox.kind=refuse: no Python code is run.",)
                raise NotAvailableError(" ".join(["no isolation for Python code works on this machine:", *reasons]))
            self._session = await isolation.open(self._files, self._settings)
        if self._session is None or self._is_closed:  # perhaps while it was starting
            self.close()
            raise SessionLostError(OVER)
        return self._session

    def close(self) -> None:
        """End the session when the question ends; from any thread."""
        self._is_closed = True
        if self._session is not None:
            self._session.close()


@mark_untrusted
async def python_repl_tool(code: str) -> ToolResult:
    """Run Python code and return what it prints and the value of its last expression, or the traceback.

    Variables and imports stay from call to call. Files attached to the question are in the current folder under their
    bare names, read-only: open("sales.csv"). pandas, numpy, scipy and openpyxl can usually be imported. There is no
    network, no other program can be started, time and memory are limited, and nothing can be installed.

    code: Python source text, such as "import math\\nprint(math.comb(49, 6))".
    """
    if not code.strip():
        raise ToolError("The code is empty; write Python such as print(6 * 7).")
    if len(code) > MAX_CODE_CHARS:
        raise ToolError(f"The code has {len(code)} characters; at most {MAX_CODE_CHARS} are run: split it.")
    context = current_context()
    if context is None:
        with closing(Interpreter(get_settings(SandboxSettings), list_attachments())) as interpreter:
            return await _run(interpreter, code)
    if STATE_KEY not in context.tool_state:
        interpreter = context.tool_state[STATE_KEY] = Interpreter(get_settings(SandboxSettings), list_attachments())
        context.on_close.append(interpreter.close)
    return await _run(context.tool_state[STATE_KEY], code)


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
