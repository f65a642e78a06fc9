"""Browser of a run: the server's tools, and a window for each question.

The policy (`mas.tools.http.url_policy`) applies to every address that the agent gives, and after every action to the
address of the page that is then open: a link, a redirect or a script may lead anywhere. A forbidden page is not shown.
The proxy behind `make browser` keeps the browser from requesting a forbidden address at all.

A page can write any text into its snapshot, but no line that begins with "### ", as a reply's sections do: its title is
one line, and the snapshot is a tree. The one exception is the text of a dialog, which follows the section of the page.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import dspy
    from mcp.types import Tool

from mas.runtime.event_loop import await_on_loop, run_blocking
from mas.runtime.sample_context import current_context
from mas.runtime.text import replace_surrogates
from mas.runtime.untrusted import mark_untrusted
from mas.tools.mcp.connection import CLOSE_SECONDS, Connection, ConnectionLostError
from mas.tools.results import Excerpt, ToolError, ToolResult

ACTION_SECONDS = 60.0  # one action, including loading the page that it leads to
LISTEN_SECONDS = 0.5  # to connect to the port
START_SECONDS = 10.0  # to open a session
STATE_KEY = "browser"  # in `SampleContext.tool_state`
SNAPSHOT, NAVIGATE, FIND = "browser_snapshot", "browser_navigate", "browser_find"
BLANK = "about:blank"
_NO_PAGE = ("", BLANK, "chrome-error://chromewebdata/")  # pages without content

# An allow list: a new version of the server adds nothing unseen. Left out are its tools that write or read files of its
# machine, run code, install something, or come from a page (docs/explanation/decisions.md 19).
ALLOWED = (
    *("browser_navigate", "browser_navigate_back", "browser_snapshot", "browser_find", "browser_click"),
    *("browser_hover", "browser_type", "browser_press_key", "browser_select_option", "browser_fill_form"),
    *("browser_handle_dialog", "browser_tabs", "browser_wait_for", "browser_drag", "browser_resize"),
    *("browser_emulate_media", "browser_console_messages", "browser_network_requests", "browser_network_request"),
    "browser_close",
)
HIDDEN = ("filename",)  # arguments that write a file of the server
MAX_DESCRIPTION_CHARS = 1_000

Check = Callable[[str], Awaitable[str]]  # returns the address; ToolError: it must not be opened
_HEADING = re.compile(r"^### (?=[A-Z])", re.MULTILINE)
_ABOUT = re.compile(r"^- Page (URL|Title): (.*)$", re.MULTILINE)
_FENCE = re.compile(r"^```\w*\n|\n?```\s*$")
_LOG = re.compile(r"\x1b\[[0-9;]*m|\nCall log:.*", re.DOTALL)  # and colours
_CONTROLS = re.compile(
    r"^(?P<indent> *)- '?(?:textbox|searchbox|combobox|spinbutton)\b.*(?:\n(?P=indent) +- (?:/\w+|text):.*)*"
    r"|^ *- (?:\d+: .*|/url:.*|'?[a-z]+\b)|\[(?:ref|cursor|level|active)\b[^\]]*\]"
    r"|^(?:Found \d+ match(?:es)?|No matches found) for .*",
    re.MULTILINE,
)
_DIALOG = "### Modal state\n"
_NO_PAGE_OPEN = "(No page is open; browser_navigate opens one.)"
_NO_TEXT = "(The page shows no text: perhaps a file such as a PDF or a picture, or a page that is still loading.)"


class Window:
    """Window of a question: its first action opens it, and its actions run one after the other."""

    def __init__(self, server: str, check: Check, owners: set[asyncio.Task[None]]) -> None:
        self._server, self._check = server, check
        self._owners = owners  # of the connections that are not yet closed
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()
        self._url = ""  # of the last page that was shown
        self._is_closed = False

    async def act(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """Do an action and return the page that is then open, with a snapshot."""
        async with self._one_at_a_time:
            if (url := arguments.get("url")) and url != BLANK:
                arguments = {**arguments, "url": await self._check(str(url))}
            connection = await self._connect(tool)
            try:
                async with asyncio.timeout(ACTION_SECONDS):
                    return await self._act(connection, tool, arguments)
            except (ConnectionLostError, TimeoutError) as error:  # the next action opens another one
                connection.close()
                self._connection = None
                reason = str(error) or f"it took longer than {ACTION_SECONDS:g} seconds"
                last = f"; the last page was {self._url}" if self._url not in _NO_PAGE else ""
                raise ToolError(
                    f"{tool}: the browser has stopped and has no page open ({reason}){last}. Open it again with "
                    f"{NAVIGATE}, or go on without it."
                ) from error

    async def _act(self, connection: Connection, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        acted = await connection.call(tool, arguments)
        shown = acted if tool == SNAPSHOT else await connection.call(SNAPSHOT, {})
        url, _ = read_open_page(acted.text if shown.failed else shown.text)
        if not url and not shown.failed:
            raise ToolError(f"{tool}: the browser's server does not say which page is open; go on without the browser.")
        if url not in (*_NO_PAGE, self._url):
            try:
                await self._check(url)
            except ToolError as error:
                await connection.call(NAVIGATE, {"url": BLANK})
                raise ToolError(
                    f"The browser was led to {url[:500]}, and has left it without showing it. {error}"
                ) from error
        self._url = url or self._url
        if waiting := shown.text.partition(_DIALOG)[2].strip()[:1000]:
            return show_below(f"{self._url} (browser)", f"The page has opened a dialog:\n{waiting}", self._url)
        if failed := next((reply for reply in (acted, shown) if reply.failed), None):
            said = split_sections(failed.text).get("Error", failed.text)
            raise ToolError(f"{tool}: {' '.join(_LOG.sub('', said).removeprefix('Error: ').split())[:500]}")
        return build_result("" if tool == SNAPSHOT else acted.text, shown.text, with_snapshot=tool != FIND)

    async def _connect(self, tool: str) -> Connection:
        if self._connection is None and not self._is_closed:
            try:
                self._connection = await Connection.open(self._server, START_SECONDS)
                self._owners.add(owner := self._connection.owner)
                owner.add_done_callback(self._owners.discard)
            except ConnectionLostError as error:
                raise ToolError(f"{tool}: the browser cannot be reached ({error}); go on without it.") from error
        if self._connection is None or self._is_closed:  # perhaps while it was opened
            self.close()
            raise ToolError(f"{tool}: the question is over, and its browser is closed.")
        return self._connection

    def close(self) -> None:
        """Close the window, from any thread; an action that is still running fails."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()


@dataclass(frozen=True)
class BrowserSession:
    """Browser that `open_browser` has opened: the tools on offer and the windows of the questions."""

    url: str
    offers: "Sequence[Tool]"
    check: Check
    owners: set[asyncio.Task[None]] = field(default_factory=set)  # of the windows' connections

    async def aclose(self) -> None:
        """Wait a little for the server to hear that windows are closed: else it keeps their pages."""
        if self.owners:
            await asyncio.wait(set(self.owners), timeout=CLOSE_SECONDS + 1)

    async def act(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """Do an action in the question's window and return what is then visible.

        ToolError: it failed, or led to an address that the policy forbids.
        """
        return await await_on_loop(self._act(tool, arguments))  # which the connections belong to

    async def _act(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        if (context := current_context()) is None:
            with closing(Window(self.url, self.check, self.owners)) as window:
                return await window.act(tool, arguments)
        if STATE_KEY not in context.tool_state:
            context.tool_state[STATE_KEY] = window = Window(self.url, self.check, self.owners)
            context.on_close.append(window.close)
        seen: ToolResult = await context.tool_state[STATE_KEY].act(tool, arguments)
        return seen


def open_browser(url: str, check: Check, say: Callable[[str], None]) -> BrowserSession | None:
    """Return the browser of a run; None without one: then `say` is called with the reason."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    try:
        socket.create_connection(address, timeout=LISTEN_SECONDS).close()  # before the SDK is imported
        return BrowserSession(url, run_blocking(_request_offers(url)), check)
    except ConnectionLostError as error:
        cause = str(error)
    except OSError:  # a TimeoutError, too
        cause = "nothing listens there"
    say(
        f"No browser: {url} does not answer as an MCP server ({cause}), so the run goes on without browser "
        "tools; start one with `make browser`, or set tools.browser.url=null."
    )
    return None


async def _request_offers(url: str) -> "list[Tool]":
    connection = await Connection.open(url, START_SECONDS)
    try:
        async with asyncio.timeout(START_SECONDS):
            return await connection.list_tools()
    finally:
        connection.close()


def build_browser_tools(session: BrowserSession) -> "dict[str, dspy.Tool]":
    """Return an async tool by name for each allowed tool that the server offers."""
    offered = {offer.name: offer for offer in session.offers}
    return {name: _build_tool(offered[name], session) for name in ALLOWED if name in offered}


def _build_tool(offer: "Tool", session: BrowserSession) -> "dspy.Tool":
    import dspy

    # An optional argument has the default null: otherwise DSPy would call it required.
    required = offer.input_schema.get("required", ())
    args: dict[str, Any] = {
        name: about if name in required or "default" in about else {"anyOf": [about, {"type": "null"}], "default": None}
        for name, about in offer.input_schema.get("properties", {}).items()
        if name not in HIDDEN
    }

    async def act(**arguments: object) -> ToolResult:  # no method: copies share the session
        given = {key: value for key, value in arguments.items() if key in args and value is not None}
        return await session.act(offer.name, given)

    act.__name__ = offer.name
    description = (offer.description or "")[:MAX_DESCRIPTION_CHARS]
    return dspy.Tool(mark_untrusted(act), offer.name, description, args, dict.fromkeys(args, Any))


def split_sections(text: str) -> dict[str, str]:
    """Return the sections of a reply by heading; of two with the same heading the first."""
    found: dict[str, str] = {}
    for part in _HEADING.split(text)[1:]:
        heading, _, body = part.partition("\n")
        found.setdefault(heading.strip(), body.strip("\n"))
    return found


def read_open_page(text: str) -> tuple[str, str]:
    """Return address and title of the page that a reply says is open; empty if it does not say."""
    about = split_sections(text.partition(_DIALOG)[0]).get("Page", "")
    facts = {name: value.strip() for name, value in reversed(_ABOUT.findall(about))}  # of two the first
    return facts.get("URL", ""), facts.get("Title", "")


def build_result(acted: str, shown: str, with_snapshot: bool = True) -> ToolResult:
    """Return what the agent sees: page, result of an action ("": only looked), tabs, snapshot."""
    (url, title), seen, said = read_open_page(shown), split_sections(shown), split_sections(acted)
    header = f"{url}{f' {title!r}' if title else ''} (browser, {datetime.now(UTC).date().isoformat()})"
    parts = [f"Tabs:\n{seen['Open tabs']}"] if "Open tabs" in seen else []
    parts += [said["Result"]] if "Result" in said and said["Result"] != seen.get("Open tabs") else []
    if with_snapshot:
        snapshot = _FENCE.sub("", seen.get("Snapshot", "")).strip()
        parts.append(snapshot or (_NO_PAGE_OPEN if url == BLANK else _NO_TEXT))
    return show_below(header, "\n\n".join(parts), url, title)


def show_below(header: str, body: str, url: str, title: str = "") -> ToolResult:
    text = replace_surrogates(f"{header}\n\n{body}" if body else header)
    shown = [Excerpt(url, title, len(text) - len(body), len(text))] if body else []
    return ToolResult(text, kind="browser_page", excerpts=shown)


def remove_controls(snapshot: str) -> str:
    """Return a page's own text, without fields, typed texts, tabs, addresses, roles and searches."""
    return _CONTROLS.sub("", snapshot)
