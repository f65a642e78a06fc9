"""Browser of a run: the server's tools, and a window for each question.

    with open_browser(url, check, print) as session:   # None without a server, which it reports once
        await session.act("browser_navigate", {"url": "https://example.org"})

The policy (`mas.tools.http.url_policy`) applies to every address that the agent gives, and after every action to the
address of the page that is then open: a link, a redirect or a script may lead anywhere. A forbidden page is not shown.
The proxy behind `make browser` keeps the browser from requesting a forbidden address at all.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import dspy
    from mcp.types import Tool

from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.sample_context import current_context
from mas.runtime.untrusted import mark_untrusted
from mas.tools.browser import page
from mas.tools.mcp.connection import CLOSE_SECONDS, Connection, ConnectionLostError
from mas.tools.results import ToolError, ToolResult

ACTION_SECONDS = 60.0  # one action, including loading the page that it leads to
LISTEN_SECONDS = 0.5  # to connect to the port
START_SECONDS = 10.0  # to open a session
STATE_KEY = "browser"  # in `SampleContext.tool_state`
SNAPSHOT, NAVIGATE, FIND = "browser_snapshot", "browser_navigate", "browser_find"
_NO_PAGE = ("", page.BLANK, "chrome-error://chromewebdata/")  # pages without content

# All of the server's tools but some (docs/explanation/decisions.md 19), as an allow list: a new version of the server
# adds nothing unseen. Left out: tools that write or read files of its machine (browser_pdf_save,
# browser_take_screenshot, browser_file_upload, browser_drop), that run code (browser_run_code_unsafe, browser_evaluate:
# its requests would pass the rules for addresses), install (browser_install), or that a page itself offers (WebMCP).
ALLOWED = (
    *("browser_navigate", "browser_navigate_back", "browser_snapshot", "browser_find", "browser_click"),
    *("browser_hover", "browser_type", "browser_press_key", "browser_select_option", "browser_fill_form"),
    *("browser_handle_dialog", "browser_tabs", "browser_wait_for", "browser_drag", "browser_resize"),
    *("browser_emulate_media", "browser_console_messages", "browser_network_requests", "browser_network_request"),
    "browser_close",
)
HIDDEN = ("filename",)  # arguments that write a file of the server
MAX_DESCRIPTION_CHARS = 1_000

Check = Callable[[str], Awaitable[str]]  # returns the address to request; ToolError: it must not be opened


class Window:
    """Window that its first action opens; its actions run one after the other."""

    def __init__(self, session: "BrowserSession") -> None:
        self._session = session
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()
        self._url = ""  # of the last page that was shown
        self._closed = False

    async def act(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """Do an action and return the page that is then open, with a snapshot."""
        async with self._one_at_a_time:
            if url := arguments.get("url"):
                arguments = {**arguments, "url": url if url == page.BLANK else await self._session.check(str(url))}
            connection = await self._connect(tool)  # may wait for other questions, which is not part of the time
            try:
                async with asyncio.timeout(ACTION_SECONDS):
                    return await self._act(connection, tool, arguments)
            except TimeoutError as error:
                self._drop()
                raise ToolError(
                    f"{tool} took longer than {ACTION_SECONDS:g} seconds and was given up, and its page was closed; "
                    f"open another page with {NAVIGATE}, or try another tool."
                ) from error
            except ConnectionLostError as error:  # the next action opens another one
                self._drop()
                self._refuse_if_over(tool)
                last = f"; the last page was {self._url}" if self._url not in _NO_PAGE else ""
                raise ToolError(
                    f"{tool}: the browser has stopped and has no page open ({error}){last}. Open it again with "
                    f"{NAVIGATE}, or go on without it."
                ) from error

    async def _act(self, connection: Connection, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        acted = await connection.call(tool, arguments)
        shown = acted if tool == SNAPSHOT else await connection.call(SNAPSHOT, {})
        url, _ = page.read_open_page(acted.text if shown.failed else shown.text)
        if not url and not shown.failed:
            raise ToolError(f"{tool}: the browser's server does not say which page is open; go on without the browser.")
        if url not in (*_NO_PAGE, self._url):
            try:
                await self._session.check(url)
            except ToolError as error:
                await connection.call(NAVIGATE, {"url": page.BLANK})
                raise ToolError(
                    f"The browser was led to {url[:500]}, and has left it without showing it. {error}"
                ) from error
        self._url = url or self._url
        if waiting := page.read_dialog(shown.text):
            return page.show_below(f"{self._url} (browser)", f"The page has opened a dialog:\n{waiting}", self._url)
        if failed := next((reply for reply in (acted, shown) if reply.failed), None):
            raise ToolError(f"{tool}: {page.read_failure(failed.text)}")
        return page.build_result("" if tool == SNAPSHOT else acted.text, shown.text, with_snapshot=tool != FIND)

    async def _connect(self, tool: str) -> Connection:
        self._refuse_if_over(tool)
        if self._connection is None:
            try:
                self._connection = await self._session.connect()
            except ConnectionLostError as error:
                raise ToolError(f"{tool}: the browser cannot be reached ({error}); go on without it.") from error
            if self._closed:
                self._drop()
                self._refuse_if_over(tool)
        return self._connection

    def _refuse_if_over(self, tool: str) -> None:
        if self._closed:
            raise ToolError(f"{tool}: the question is over, and its browser is closed.")

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def close(self) -> None:
        """Close the window, from any thread; an action that is still running fails."""
        self._closed = True
        self._drop()


class BrowserSession:
    """Browser that `open_browser` has opened: the tools on offer and the windows of the questions."""

    def __init__(self, url: str, offers: "Sequence[Tool]", check: Check) -> None:
        self.offers, self.check = offers, check
        self._url = url
        self._open: set[Connection] = set()

    async def act(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """Do an action in the question's window and return what is then visible.

        Raises:
            ToolError: it failed, or led to an address that the policy forbids.
        """
        if asyncio.get_running_loop() is not background_loop():  # the connections belong to that loop
            there = asyncio.run_coroutine_threadsafe(self.act(tool, arguments), background_loop())
            return await asyncio.wrap_future(there)
        if (context := current_context()) is None:
            with closing(Window(self)) as window:
                return await window.act(tool, arguments)
        if STATE_KEY not in context.tool_state:
            context.tool_state[STATE_KEY] = window = Window(self)
            context.on_close.append(window.close)
        seen: ToolResult = await context.tool_state[STATE_KEY].act(tool, arguments)
        return seen

    async def connect(self) -> Connection:
        """Open a session with the server, which has a window of its own."""
        connection = await Connection.open(self._url, START_SECONDS)
        self._open.add(connection)
        connection.owner.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    async def aclose(self) -> None:
        """Close all connections, without waiting for a server that does not answer."""
        owners = [connection.owner for connection in self._open]
        for connection in list(self._open):
            connection.close()
        if owners:
            await asyncio.wait(owners, timeout=CLOSE_SECONDS + 1)


@contextmanager
def open_browser(url: str, check: Check, say: Callable[[str], None]) -> Iterator[BrowserSession | None]:
    """Open the browser for a run; None without one, which takes less than a second if nothing listens.

    Args:
        url: of the server.
        check: the policy for addresses.
        say: called once with the reason if there is no browser.
    """
    offers, why_not = find_offers(url)
    if why_not:
        say(why_not)
        yield None
        return
    session = BrowserSession(url, offers, check)
    try:
        yield session
    finally:
        run_blocking(session.aclose())


def find_offers(url: str) -> "tuple[list[Tool], str]":
    """Return the server's tools, and the reason why there are none."""
    parts, cause = urlsplit(url), "nothing listens there"
    address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    try:
        socket.create_connection(address, timeout=LISTEN_SECONDS).close()  # before the SDK is imported
        return run_blocking(_request_offers(url)), ""
    except (ConnectionLostError, OSError) as error:  # a TimeoutError, too
        cause = str(error) if isinstance(error, ConnectionLostError) else cause
    return [], (
        f"No browser: {url} does not answer as an MCP server ({cause}), so the run goes on without browser "
        "tools; start one with `make browser`, or set tools.browser.url=null."
    )


async def _request_offers(url: str) -> "list[Tool]":
    connection = await Connection.open(url, START_SECONDS)
    try:
        async with asyncio.timeout(START_SECONDS):
            return await connection.list_tools()
    finally:
        connection.close()
        await asyncio.wait({connection.owner}, timeout=CLOSE_SECONDS + 1)


def build_browser_tools(session: BrowserSession) -> "dict[str, dspy.Tool]":
    """Return an async tool by name for each allowed tool that the server offers."""
    offered = {offer.name: offer for offer in session.offers}
    return {name: _build_tool(offered[name], session) for name in ALLOWED if name in offered}


def _build_tool(offer: "Tool", session: BrowserSession) -> "dspy.Tool":
    import dspy

    name, args = offer.name, _read_arguments(offer.input_schema)

    async def act(**arguments: object) -> ToolResult:  # not a method: copies of a program share the session
        # Models write null for an argument that they want to leave out.
        given = {key: value for key, value in arguments.items() if key in args and value is not None}
        return await session.act(name, given)

    act.__name__ = name
    description = (offer.description or "")[:MAX_DESCRIPTION_CHARS]
    return dspy.Tool(mark_untrusted(act), name, description, args, dict.fromkeys(args, Any))


def _read_arguments(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the arguments in DSPy's form, each with its JSON schema.

    An optional argument has the default null: otherwise DSPy would call it required.
    """
    required, found = schema.get("required", ()), {}
    for name, about in schema.get("properties", {}).items():
        if name in HIDDEN:
            continue
        found[name] = about
        if name not in required and "default" not in about:
            found[name] = {"anyOf": [about, {"type": "null"}], "default": None}
    return found
