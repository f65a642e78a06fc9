"""Browser window of a question: its session with the server, and the policy for what it may show.

    window = Window(connect, check_public, action_seconds=60)
    await window.act("browser_navigate", {"url": "https://example.org"})      # what is visible there

The policy (`mas.tools.http.url_policy`) applies to every address that the agent gives, and after every action to the
address of the page that is then open: a link, a redirect or a script may lead anywhere. A forbidden page is not shown.
The proxy behind `make browser` keeps the browser from requesting a forbidden address at all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from mas.tools.browser.page import BLANK, Page, build_result, read_dialog, read_failure, read_open_page, show_below
from mas.tools.mcp.connection import Connection, ConnectionLostError, Reply
from mas.tools.results import ToolError, ToolResult

Connect = Callable[[], Awaitable[Connection]]
Check = Callable[[str], Awaitable[str]]  # returns the address to request; ToolError: it must not be opened

SNAPSHOT, NAVIGATE, FIND = "browser_snapshot", "browser_navigate", "browser_find"
_NO_PAGE = ("", BLANK, "chrome-error://chromewebdata/")  # pages without content


class Window:
    """Window that its first action opens; its actions run one after the other."""

    def __init__(self, connect: Connect, check: Check, action_seconds: float) -> None:
        self._connect, self._check, self._seconds = connect, check, action_seconds
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()
        self._url = ""  # of the last page that was shown
        self._closed = False

    async def act(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """Do an action and return the page that is then open, with a snapshot.

        Raises:
            ToolError: it failed, or led to an address that the policy forbids.
        """
        async with self._one_at_a_time:
            if url := arguments.get("url"):
                arguments = {**arguments, "url": url if url == BLANK else await self._check(str(url))}
            await self._connect_once(tool)  # may wait for other questions, which is not part of the action's time
            try:
                async with asyncio.timeout(self._seconds):
                    return await self._act(tool, arguments)
            except TimeoutError as error:
                self._drop()
                raise ToolError(
                    f"{tool} took longer than {self._seconds:g} seconds and was given up, and its page was closed; "
                    f"open another page with {NAVIGATE}, or try another tool."
                ) from error

    async def _act(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        acted = await self._call(tool, arguments)
        shown = acted if tool == SNAPSHOT else await self._call(SNAPSHOT, {})
        url = read_open_page(acted.text if shown.failed else shown.text).url
        if not url and not shown.failed:
            raise ToolError(f"{tool}: the browser's server does not say which page is open; go on without the browser.")
        await self._leave_unless_allowed(url)
        self._url = url or self._url
        if waiting := read_dialog(shown.text):
            return show_below(f"{self._url} (browser)", f"The page has opened a dialog:\n{waiting}", Page(self._url))
        if failed := next((reply for reply in (acted, shown) if reply.failed), None):
            raise ToolError(_explain(tool, read_failure(failed.text)))
        return build_result("" if tool == SNAPSHOT else acted.text, shown.text, with_snapshot=tool != FIND)

    async def _call(self, tool: str, arguments: Mapping[str, object]) -> Reply:
        """Return the server's reply; the action after a lost connection opens another one."""
        connection = await self._connect_once(tool)
        try:
            return await connection.call(tool, arguments)
        except ConnectionLostError as error:
            self._drop()
            last = f"; the last page was {self._url}" if self._url not in _NO_PAGE else ""
            raise ToolError(
                f"{tool}: the browser has stopped and has no page open ({error}){last}. Open it again with {NAVIGATE}, "
                "or go on without it."
            ) from error

    async def _connect_once(self, tool: str) -> Connection:
        if self._connection is None and not self._closed:
            try:
                self._connection = await self._connect()
            except ConnectionLostError as error:
                raise ToolError(f"{tool}: the browser cannot be reached ({error}); go on without it.") from error
        if self._closed:
            self._drop()
        if self._connection is None:
            raise ToolError(f"{tool}: the question is over, and its browser is closed.")
        return self._connection

    async def _leave_unless_allowed(self, url: str) -> None:
        if url in _NO_PAGE or url == self._url:
            return
        try:
            await self._check(url)
        except ToolError as error:
            await self._call(NAVIGATE, {"url": BLANK})
            raise ToolError(
                f"The browser was led to {url[:500]}, and has left it without showing it. {error}"
            ) from error

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def close(self) -> None:
        """Close the window, from any thread; an action that is still running fails."""
        self._closed = True
        self._drop()


def _explain(tool: str, reason: str) -> str:
    if "ERR_TUNNEL_CONNECTION_FAILED" in reason:
        return f"{tool}: {reason}; that host does not answer, or is not on the public web."
    if "not found in the current page snapshot" in reason:
        return f"{tool}: {reason} {SNAPSHOT} shows the page with its present refs."
    if "Timeout" in reason:
        return f"{tool}: {reason}; {SNAPSHOT} shows what is there so far."
    return f"{tool}: {reason}"
