"""Session with an MCP server that listens (streamable HTTP) or is a process that the session starts.

The SDK requires that one task opens and closes a session; a task of its own does both, and calls may come from any
other task on its loop. Playwright MCP with `--isolated` gives each session its own browser context: cookies, tabs.
"""

import asyncio
import contextlib
import importlib
import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import httpx2
    from mcp.client.client import Client
    from mcp.types import Tool

_Answer = TypeVar("_Answer")

MAX_REPLY_BYTES = 32 * 2**20  # the SDK's own limit, 1 MiB, is less than the snapshot of a long page
HTTP_SECONDS = 10.0  # to connect, and to send
MAX_REASON_CHARS = 500  # of what a server that failed has written
CLOSE_SECONDS = 5.0  # for the server to hear that a session is over


class ConnectionLostError(Exception):
    """The session ended or could not be opened: the server stopped, or is no MCP server."""


@dataclass(frozen=True)
class ServerCommand:
    """Server that starts and ends with the session; they talk over its standard input and output."""

    command: Sequence[str]
    environment: Mapping[str, str]  # besides the SDK's PATH, HOME, SHELL, TERM, USER and LOGNAME


@dataclass(frozen=True)
class Reply:
    text: str
    failed: bool
    data: Mapping[str, object] | None = None  # structured content, if the tool has any


class Connection:
    """Session that is open until it is closed or its server stops."""

    def __init__(self, server: str | ServerCommand) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._client: asyncio.Future[Client] = self._loop.create_future()
        self._closing = asyncio.Event()
        self._last_words = ""  # of a process that has ended, or of a server that forbids access
        self.owner = asyncio.create_task(self._own())  # ends when the session has

    @classmethod
    async def open(cls, server: str | ServerCommand, seconds: float) -> "Connection":
        """Open a session; ConnectionLostError: no such server, or it did not answer in time."""
        await asyncio.to_thread(importlib.import_module, "mcp.client.client")  # takes seconds, once
        connection = cls(server)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(connection._client)
            return connection
        except BaseException as error:
            connection.owner.cancel()
            if isinstance(error, TimeoutError):
                raise ConnectionLostError(f"no answer in {seconds:g} seconds") from error
            raise

    async def _own(self) -> None:
        """Open the client and close it; the newest protocol has no sessions to keep questions apart."""
        from mcp.client.client import Client

        logging.getLogger("mcp.client").setLevel(logging.CRITICAL)  # its errors are handled here
        lost = ConnectionLostError("the session was given up")
        try:
            async with self._open_transport() as transport, Client(transport, mode="legacy", cache=None) as client:
                self._client.set_result(client)
                await self._closing.wait()
                self._loop.call_later(CLOSE_SECONDS, self.owner.cancel)
        except Exception as error:  # noqa: BLE001  # the SDK raises anything
            lost = self._describe_loss(error)
        finally:
            if not self._client.done():
                self._client.set_exception(lost)
                self._client.exception()  # retrieved, even if nobody waits for it any more

    @contextlib.asynccontextmanager
    async def _open_transport(self) -> AsyncIterator[Any]:
        if isinstance(self._server, str):
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            # The environment's proxy is for the world outside; the caller limits the time of an action.
            timeout, hooks = httpx2.Timeout(HTTP_SECONDS, read=None), {"response": [self._record_refusal]}
            async with httpx2.AsyncClient(timeout=timeout, trust_env=False, event_hooks=hooks) as http:
                yield streamable_http_client(self._server, http_client=http, max_sse_event_size=MAX_REPLY_BYTES)
            return
        from mcp.client.stdio import StdioServerParameters, stdio_client

        program, *arguments = self._server.command
        parameters = StdioServerParameters(command=program, args=arguments, env=dict(self._server.environment))
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            try:
                yield stdio_client(parameters, errors)
            finally:
                errors.seek(0)
                self._last_words = errors.read()[-MAX_REASON_CHARS:].strip().split("\n")[-1]

    async def _record_refusal(self, response: "httpx2.Response") -> None:
        if response.status_code in (401, 403):  # the SDK reports only that
            await response.aread()
            self._last_words = f"HTTP {response.status_code} {' '.join(response.text.split())[:200]}".strip()

    def _describe_loss(self, error: BaseException) -> ConnectionLostError:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return ConnectionLostError(self._last_words or " ".join(str(error).split())[:300] or type(error).__name__)

    async def call(self, tool: str, arguments: Mapping[str, object]) -> Reply:
        """Call a tool of the server; ConnectionLostError: the session has ended."""
        result = await self._await(self._client.result().call_tool(tool, dict(arguments)))
        texts = [block.text for block in result.content if block.type == "text"]
        return Reply("\n".join(texts), bool(result.is_error), result.structured_content)

    async def list_tools(self) -> "list[Tool]":
        listing = await self._await(self._client.result().list_tools())
        return listing.tools

    async def _await(self, request: Awaitable[_Answer]) -> _Answer:
        try:
            return await request
        except Exception as error:
            raise self._describe_loss(error) from error

    def close(self) -> None:
        """End the session, from any thread; its task ends shortly after."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it all its tasks
            self._loop.call_soon_threadsafe(self._closing.set)
