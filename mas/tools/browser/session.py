"""Browser of a run: the server's tools, and a window for each question.

    with open_browser(BrowserSettings(), check) as session:          # None without a server, which it reports once
        await session.act("browser_navigate", {"url": "https://example.org"})

A question's first action opens its window, which is closed with the question; outside a run each call has its own.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mcp.types import Tool

from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.sample_context import current_context
from mas.tools.browser.page import cut
from mas.tools.browser.window import Check, Window
from mas.tools.mcp.connection import CLOSE_SECONDS, Connection, ConnectionLostError
from mas.tools.results import ToolResult
from mas.tools.settings import BrowserSettings
from mas.tools.tool_context import ToolLimits, get_settings

ACTION_SECONDS = 60.0  # one action, including loading the page that it leads to
LISTEN_SECONDS = 0.5  # to connect to the port
START_SECONDS = 10.0  # to open a session
SLACK_CHARS = 500  # of `tools.max_output_chars`, for what others write around an observation
STATE_KEY = "browser"  # in `SampleContext.tool_state`


class BrowserSession:
    """Browser that `open_browser` has opened: the tools on offer and the windows of the questions."""

    def __init__(self, settings: BrowserSettings, url: str, offers: "Sequence[Tool]", check: Check) -> None:
        self.offers = offers
        self.chosen_tools = settings.tools
        self._url, self._check = url, check
        self._open: set[Connection] = set()

    async def act(self, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """Do an action in the question's window and return what is then visible, cut to the length of an observation.

        Raises:
            ToolError: it failed, or led to an address that the policy forbids.
        """
        if asyncio.get_running_loop() is not background_loop():  # the connections belong to that loop
            there = asyncio.run_coroutine_threadsafe(self.act(tool, arguments), background_loop())
            return await asyncio.wrap_future(there)
        if (context := current_context()) is not None:
            if STATE_KEY not in context.tool_state:
                context.tool_state[STATE_KEY] = window = self._window()
                context.on_close.append(window.close)
            seen = await context.tool_state[STATE_KEY].act(tool, arguments)
        else:
            window = self._window()
            try:
                seen = await window.act(tool, arguments)
            finally:
                window.close()
        return cut(seen, get_settings(ToolLimits).max_output_chars - SLACK_CHARS)

    def _window(self) -> Window:
        return Window(self._connect, self._check, ACTION_SECONDS)

    async def _connect(self) -> Connection:
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
def open_browser(
    settings: BrowserSettings, check: Check, say: Callable[[str], None] | None = None
) -> Iterator[BrowserSession | None]:
    """Open the browser for a run; None without one, which takes less than a second if nothing listens.

    Args:
        settings: already checked.
        check: the policy for addresses.
        say: called once with the reason if there is no browser although one is configured; by default a log warning.
    """
    offers, why_not = _find_offers(settings)
    if why_not:
        (say or logging.getLogger(__name__).warning)(why_not)
    if settings.url is None or why_not:
        yield None
        return
    session = BrowserSession(settings, settings.url, offers, check)
    try:
        yield session
    finally:
        run_blocking(session.aclose())


def describe_missing_browser(settings: BrowserSettings) -> str:
    """Return the reason why there is no browser; "" if there is one, or if none is configured."""
    return _find_offers(settings)[1]


def _find_offers(settings: BrowserSettings) -> "tuple[list[Tool], str]":
    """Return the server's tools, or the reason why there are none."""
    if settings.url is None:
        return [], ""
    if not _listens(settings.url):
        return [], (
            f"No browser: nothing listens at {settings.url}, so the run goes on without browser tools; start one with "
            "`make browser`, or set tools.browser.url=null."
        )
    try:
        return run_blocking(_request_offers(settings.url)), ""
    except ConnectionLostError as error:
        return [], _explain_failure(settings.url, str(error))


def _listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        socket.create_connection(address, timeout=LISTEN_SECONDS).close()
    except OSError:
        return False
    return True


async def _request_offers(url: str) -> "list[Tool]":
    connection = await Connection.open(url, START_SECONDS)
    try:
        async with asyncio.timeout(START_SECONDS):
            return await connection.list_tools()
    except TimeoutError as error:
        raise ConnectionLostError(f"no list of tools in {START_SECONDS:g} seconds") from error
    finally:
        connection.close()
        await asyncio.wait({connection.owner}, timeout=CLOSE_SECONDS + 1)


def _explain_failure(url: str, cause: str) -> str:
    if cause.startswith("HTTP 403"):
        return (
            f"No browser: the server at {url} does not serve under that host name ({cause}), so the run goes on "
            f"without browser tools; start it with --allowed-hosts {urlsplit(url).netloc}, as `make browser` does for "
            "its own address, or set tools.browser.url to a name that it allows."
        )
    return (
        f"No browser: what listens at {url} does not answer as an MCP server ({cause}), so the run goes on without "
        "browser tools; start one with `make browser`, or set tools.browser.url=null."
    )
