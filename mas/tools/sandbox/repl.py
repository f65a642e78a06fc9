"""Tool that runs Python code in the strongest isolation that works (docs/explanation/sandbox.md)."""

import asyncio
import functools

from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import current_context
from mas.runtime.untrusted import mark_untrusted
from mas.tools.attachments import list_attachments
from mas.tools.results import ToolError, ToolResult
from mas.tools.sandbox.isolations import JAIL, WASM
from mas.tools.sandbox.session import OVER, Files, Isolation, NotAvailableError, Reply, Session, SessionLostError
from mas.tools.settings import AUTO, SandboxSettings, get_settings

STATE_KEY = "python"  # in `SampleContext.tool_state`
MAX_CODE_CHARS = 20_000  # a longer text is refused
NO_OUTPUT = "(no output: print a value, or end the code with an expression)"


@functools.cache
def try_isolations(kind: str) -> tuple[Isolation | None, tuple[str, ...]]:
    """Return the first isolation of this kind that runs a program, and why no better one does."""
    refused: list[str] = []
    for isolation in (JAIL, WASM):  # the better one first
        if kind in (AUTO, isolation.name):
            try:
                run_blocking(isolation.open({}, SandboxSettings())).close()
                return isolation, tuple(refused)
            except NotAvailableError as error:
                refused.append(str(error))
    return None, tuple(refused)


class Interpreter:
    """Interpreter that keeps variables; its first call, and that after a loss, opens a session."""

    def __init__(self, settings: SandboxSettings, files: Files) -> None:
        self._settings, self._files = settings, files
        self._session: Session | None = None
        self._is_closed = False
        self._one_at_a_time = asyncio.Lock()

    async def run(self, code: str) -> Reply:
        """Run code; SessionLostError and NotAvailableError say why there is no reply."""
        async with self._one_at_a_time:
            if self._session is None and not self._is_closed:
                isolation, refused = await asyncio.to_thread(try_isolations, self._settings.kind)
                if isolation is None:
                    reasons = refused or ("tools.sandbox.kind=refuse: no Python code is run.",)
                    raise NotAvailableError(" ".join(["no isolation for Python code works on this machine:", *reasons]))
                self._session = await isolation.open(self._files, self._settings)
            if self._session is None or self._is_closed:  # perhaps while it was starting
                self.close()
                raise SessionLostError(OVER)
            try:
                return await self._session.run(code, self._settings.seconds_per_call)
            except BaseException:
                self._session = None
                raise

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
    state = {} if context is None else context.tool_state
    if STATE_KEY not in state:
        state[STATE_KEY] = Interpreter(get_settings(SandboxSettings), list_attachments())
        if context is not None:
            context.on_close.append(state[STATE_KEY].close)
    try:
        return format_reply(await state[STATE_KEY].run(code))
    except SessionLostError as error:
        raise ToolError(
            f"python was stopped: {error}. All variables are lost; the next call starts a new session: "
            "do less at once, or in another way."
        ) from error
    except NotAvailableError as error:
        raise ToolError(f"python is not available: {error} Answer without running code.") from error
    finally:
        if context is None:
            state[STATE_KEY].close()


def format_reply(reply: Reply) -> ToolResult:
    """Return the printed text, then the value or the traceback, and how much is missing."""
    parts = [text.rstrip("\n") for text in (reply.output, reply.value, reply.error) if text]
    parts += [f"[cut: {reply.missing_chars} characters are missing]"] if reply.missing_chars else []
    return ToolResult("\n".join(parts) or NO_OUTPUT, kind="code", truncated=reply.missing_chars > 0)
