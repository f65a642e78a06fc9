"""One session with a browser's server, over the Model Context Protocol's streamable HTTP.

The SDK wants a session opened and closed by the same task; so a task of its own does both, and calls may come from any
other task on its loop. Playwright MCP with `--isolated` gives each session a browser context of its own: cookies, tabs.

    connection = await Connection.open("http://127.0.0.1:3000/mcp", seconds=10)
    reply = await connection.call("browser_navigate", {"url": "https://example.org"})
    connection.close()
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Any

MAX_REPLY_BYTES = 32 * 2**20  # the SDK's own limit, 1 MiB, is less than the snapshot of a long page
MAX_TOOL_PAGES = 20
HTTP_SECONDS = 10.0  # to connect, and to send
CLOSE_SECONDS = 5.0  # for the server to hear that a session is over


class ConnectionLostError(Exception):
    """The session is gone, or never was: the server stopped, was started anew, or is none. Says what was seen."""


@dataclass(frozen=True)
class Reply:
    """What a tool of the server said."""

    text: str
    failed: bool


@dataclass(frozen=True)
class Offer:
    """A tool that the server has."""

    name: str
    description: str
    schema: dict[str, Any]  # of its arguments, as JSON Schema


class Connection:
    """A session that is open until it is closed or its server is gone."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.get_running_loop()
        self._client: asyncio.Future[Any] = self._loop.create_future()
        self._closing = asyncio.Event()
        self._refusal = ""  # what the server said with an HTTP status of 400 or more; the SDK tells no more than that
        self.owner = asyncio.create_task(self._own())  # ends when the session has

    @classmethod
    async def open(cls, url: str, seconds: float) -> "Connection":
        """
        Raises:
            ConnectionLostError: there is no such server, or it did not answer in time.
        """
        connection = cls(url)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(connection._client)
        except TimeoutError as error:
            connection.owner.cancel()
            raise ConnectionLostError(f"no answer in {seconds:g} seconds") from error
        except BaseException:
            connection.owner.cancel()
            raise
        return connection

    async def _own(self) -> None:
        try:
            async with self._http() as http, _client(self._url, http) as client:
                self._client.set_result(client)
                await self._closing.wait()
        except asyncio.CancelledError:
            self._fail(ConnectionLostError("the session was given up"))
            raise
        except Exception as error:  # noqa: BLE001  # whatever a server that is none makes of the SDK
            self._fail(self._lost(error))

    def _http(self) -> Any:
        """Straight to the server: a proxy of the environment is for the world outside."""
        import httpx2

        async def notice(response: Any) -> None:
            if response.request.method == "POST" and response.status_code >= 400:
                await response.aread()
                self._refusal = f"HTTP {response.status_code} {' '.join(response.text.split())[:200]}".strip()

        timeout = httpx2.Timeout(HTTP_SECONDS, read=None)  # how long an action may take is its caller's affair
        return httpx2.AsyncClient(timeout=timeout, trust_env=False, event_hooks={"response": [notice]})

    def _lost(self, error: Exception) -> ConnectionLostError:
        return ConnectionLostError(self._refusal or _cause(error))

    def _fail(self, error: ConnectionLostError) -> None:
        if not self._client.done():
            self._client.set_exception(error)
            self._client.exception()  # seen, even if nobody waits for it any more

    async def call(self, tool: str, arguments: dict[str, Any]) -> Reply:
        """
        Raises:
            ConnectionLostError: the session ended before the reply, or is over; or the server speaks another protocol.
        """
        result = await self._asked(self._client.result().call_tool(tool, arguments))
        texts = [block.text for block in result.content if block.type == "text"]
        return Reply("\n".join(texts), bool(result.is_error))

    async def offers(self) -> list[Offer]:
        """The server's tools.

        Raises:
            ConnectionLostError: as for `call`.
        """
        client, found, cursor = self._client.result(), [], None
        for _ in range(MAX_TOOL_PAGES):
            listing = await self._asked(client.list_tools(cursor=cursor))
            found += [Offer(tool.name, tool.description or "", tool.input_schema) for tool in listing.tools]
            if not (cursor := listing.next_cursor):
                break
        return found

    async def _asked(self, request: Any) -> Any:
        """The answer, unless the session ends first."""
        answer = asyncio.ensure_future(request)
        try:
            await asyncio.wait({answer, self.owner}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ConnectionLostError("the session ended")
            return answer.result()
        except (ConnectionLostError, asyncio.CancelledError):
            raise
        except Exception as error:
            raise self._lost(error) from error
        finally:
            await _ended(answer)

    def close(self) -> None:
        """End the session, from any thread; its task ends soon after."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it everything on it
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        self._closing.set()
        self._loop.call_later(CLOSE_SECONDS, self.owner.cancel)


def _client(url: str, http: Any) -> Any:
    """Not the newest protocol: it knows no sessions, and it is a session that keeps two questions apart."""
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    # Else there is a traceback on the screen for what is handled here.
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
    transport = streamable_http_client(url, http_client=http, max_sse_event_size=MAX_REPLY_BYTES)
    return Client(transport, mode="legacy", cache=None)


async def _ended(task: "asyncio.Future[Any]") -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=1.0)
    if task.done() and not task.cancelled():
        task.exception()


def _cause(error: BaseException) -> str:
    """In a few words; of a group of errors, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split())[:300] or type(error).__name__
