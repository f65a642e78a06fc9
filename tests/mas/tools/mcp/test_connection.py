"""Sessions with a small MCP server: over standard input and output, over HTTP, and when it is none or dies."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mas.runtime.security.child_environment import build_child_environment
from mas.tools.mcp import connection as connection_module
from mas.tools.mcp.connection import Connection, ConnectionLostError, Offer, Reply, ServerCommand
from tests.servers.playwright_mcp import free_port

pytestmark = pytest.mark.anyio
SERVER = """
import os, sys
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("small", log_level="ERROR")

@server.tool(description="Add two numbers.")
def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}

@server.tool()
def fail(why: str) -> str:
    raise ToolError(why)

@server.tool()
def die() -> str:
    print("first line\\nthe disk is full", file=sys.stderr, flush=True)
    os._exit(1)

@server.tool()
async def wait() -> str:
    import asyncio
    await asyncio.sleep(60)

@server.tool()
def environment() -> dict[str, str]:
    return dict(os.environ)

if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
"""


@pytest.fixture
def command(tmp_path: Path) -> ServerCommand:
    (tmp_path / "small_server.py").write_text(SERVER)
    return ServerCommand((sys.executable, str(tmp_path / "small_server.py")), build_child_environment())


@contextlib.asynccontextmanager
async def opened(server: str | ServerCommand) -> AsyncIterator[Connection]:
    connection = await Connection.open(server, 60)
    try:
        yield connection
    finally:
        connection.close()
        await asyncio.wait({connection.owner}, timeout=30)
        assert connection.owner.done(), "the session ends, and with it its process"


async def check_tools(connection: Connection) -> None:
    offers = {each.name: each for each in await connection.list_offers()}
    assert sorted(offers) == ["add", "die", "environment", "fail", "wait"]
    assert isinstance(offers["add"], Offer) and offers["add"].description == "Add two numbers."
    assert offers["fail"].description == "" and set(offers["add"].schema["properties"]) == {"a", "b"}
    added = await connection.call("add", {"a": 2, "b": 3})
    assert (added.failed, added.data) == (False, {"sum": 5}) and '"sum": 5' in added.text
    failed = await connection.call("fail", {"why": "no such table"})
    assert isinstance(failed, Reply) and failed.failed and "no such table" in failed.text


async def test_a_process_is_started_with_the_session_and_ends_with_it(command: ServerCommand) -> None:
    async with opened(command) as connection:
        await check_tools(connection)
        several = await asyncio.gather(*(connection.call("add", {"a": n, "b": n}) for n in range(5)))
        assert [each.data for each in several] == [{"sum": 2 * n} for n in range(5)]
    with pytest.raises(ConnectionLostError):
        await connection.call("add", {"a": 1, "b": 1})


@pytest.mark.slow
async def test_a_process_gets_the_environment_that_is_given_to_it_and_no_secret(
    command: ServerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    given = ServerCommand(command.command, {**command.environment, "GIVEN": "yes"})
    async with opened(given) as connection:
        seen = (await connection.call("environment", {})).data
    assert seen is not None and seen["GIVEN"] == "yes" and "OPENAI_API_KEY" not in seen


async def test_a_process_that_dies_leaves_its_last_line(command: ServerCommand) -> None:
    async with opened(command) as connection:
        with pytest.raises(ConnectionLostError):
            await connection.call("die", {})
        with pytest.raises(ConnectionLostError):
            await connection.call("add", {"a": 1, "b": 1})
    broken = ServerCommand((sys.executable, "-c", "import sys; sys.exit('no database there')"), command.environment)
    with pytest.raises(ConnectionLostError, match=r"^no database there$"):
        await Connection.open(broken, 30)
    with pytest.raises(ConnectionLostError):
        await Connection.open(ServerCommand(("/no/such/program",), {}), 30)


@pytest.mark.slow
async def test_a_process_that_says_nothing_is_given_up(command: ServerCommand) -> None:
    silent = ServerCommand((sys.executable, "-c", "import time; time.sleep(60)"), command.environment)
    began = time.monotonic()
    with pytest.raises(ConnectionLostError, match=r"^no answer in 0\.5 seconds$"):
        await Connection.open(silent, 0.5)
    assert time.monotonic() - began < 30


@pytest.mark.slow
async def test_a_call_can_be_given_up_and_the_session_goes_on(command: ServerCommand) -> None:
    async with opened(command) as connection:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await connection.call("wait", {})
        assert (await connection.call("add", {"a": 1, "b": 1})).data == {"sum": 2}
        waiting = asyncio.create_task(connection.call("wait", {}))
        await asyncio.sleep(0.1)
        connection.close()
        with pytest.raises(ConnectionLostError):
            await waiting


@pytest.fixture
def address(command: ServerCommand) -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([*command.command, str(port)], env=dict(command.environment))
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
async def test_a_server_that_listens_has_sessions_too(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # for the world outside
    until = time.monotonic() + 60
    while True:
        try:
            connection = await Connection.open(address, 30)
            break
        except ConnectionLostError:
            assert time.monotonic() < until
            await asyncio.sleep(0.2)
    connection.close()
    async with opened(address) as one, opened(address) as another:
        await check_tools(one)
        assert (await another.call("add", {"a": 1, "b": 1})).data == {"sum": 2}


class Refusing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = b"the key\n is missing"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


async def test_a_server_that_refuses_or_is_none_says_why() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ConnectionLostError, match=r"^HTTP 403 the key is missing$"):
            await Connection.open(f"http://127.0.0.1:{server.server_port}/mcp", 30)
        server.shutdown()
    with pytest.raises(ConnectionLostError) as nobody:
        await Connection.open(f"http://127.0.0.1:{free_port()}/mcp", 30)
    assert str(nobody.value) and "\n" not in str(nobody.value)


def test_the_cause_of_a_failure_is_a_line_of_the_first_error() -> None:
    group = ExceptionGroup(
        "all", [ExceptionGroup("inner", [ValueError(" no\n such  page "), KeyError()]), OSError("x")]
    )
    assert connection_module._cause(group) == "no such page"
    assert connection_module._cause(ValueError()) == "ValueError"
    assert connection_module._cause(ValueError("x" * 301)) == "x" * 300


class Client:
    """Client of the SDK's kind that lists these pages of tools, and calls as it is told."""

    def __init__(self, *pages: list[str], call: Callable[[str, dict[str, Any]], Any] | None = None) -> None:
        self.pages, self.cursors, self.called = pages, list[str | None](), call

    async def list_tools(self, cursor: str | None) -> Any:
        self.cursors.append(cursor)
        number = int(cursor or 0)
        tools = [SimpleNamespace(name=name, description=None, input_schema={"n": name}) for name in self.pages[number]]
        more = number + 1 < len(self.pages)
        return SimpleNamespace(tools=tools, next_cursor=str(number + 1) if more else None)

    async def call_tool(self, tool: str, arguments: dict[str, Any]) -> Any:
        assert self.called
        found = self.called(tool, arguments)
        return await found if asyncio.iscoroutine(found) else found


@contextlib.asynccontextmanager
async def faked(client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    @contextlib.asynccontextmanager
    async def open_client(self: Connection) -> AsyncIterator[Client]:
        yield client

    monkeypatch.setattr(Connection, "_open_client", open_client)
    connection = await Connection.open("http://127.0.0.1:1/mcp", 5)
    try:
        yield connection
    finally:
        connection.close()
        await asyncio.wait({connection.owner}, timeout=5)
        assert connection.owner.done() and not connection.owner.cancelled()


async def test_all_pages_of_a_list_of_tools_are_asked_for_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(["a", "b"], [], ["c"])
    async with faked(client, monkeypatch) as connection:
        assert await connection.list_offers() == [Offer(name, "", {"n": name}) for name in "abc"]
        assert client.cursors == [None, "1", "2"]
        client.cursors.clear()
        monkeypatch.setattr(connection_module, "MAX_TOOL_PAGES", 2)
        assert [offer.name for offer in await connection.list_offers()] == ["a", "b"]
        assert client.cursors == [None, "1"]


async def test_a_reply_is_its_texts_line_by_line_and_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def call(tool: str, arguments: dict[str, Any]) -> Any:
        asked.append((tool, arguments))
        blocks = [("text", "one"), ("image", "no"), ("text", "two")]
        content = [SimpleNamespace(type=kind, text=text) for kind, text in blocks]
        return SimpleNamespace(content=content, is_error=len(asked) > 1, structured_content={"a": 1})

    async with faked(Client(call=call), monkeypatch) as connection:
        assert await connection.call("look", {"at": 1}) == Reply("one\ntwo", False, {"a": 1})
        assert (await connection.call("look", {})).failed is True
    assert asked == [("look", {"at": 1}), ("look", {})]


async def test_an_error_of_the_library_is_a_lost_connection_and_its_own_are_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors: list[BaseException] = [ValueError("odd\nreply"), ConnectionLostError("gone"), asyncio.CancelledError()]

    def fail(tool: str, arguments: dict[str, Any]) -> Any:
        raise errors.pop(0)

    async with faked(Client(call=fail), monkeypatch) as connection:
        with pytest.raises(ConnectionLostError, match=r"^odd reply$"):
            await connection.call("look", {})
        with pytest.raises(ConnectionLostError, match=r"^gone$"):
            await connection.call("look", {})
        with pytest.raises(asyncio.CancelledError):
            await connection.call("look", {})


async def test_a_call_ends_with_its_session_and_is_cancelled_then(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with faked(Client(call=lambda tool, arguments: wait()), monkeypatch) as connection:
        calling = asyncio.create_task(connection.call("look", {}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connection.close()
        with pytest.raises(ConnectionLostError, match=r"^the session ended$"):
            await calling
        assert ended == ["cancelled"]


async def test_a_session_that_was_given_up_while_it_opened_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Connection] = []

    @contextlib.asynccontextmanager
    async def never(self: Connection) -> AsyncIterator[Client]:
        opened.append(self)
        await asyncio.Event().wait()
        yield Client()

    monkeypatch.setattr(Connection, "_open_client", never)
    with pytest.raises(ConnectionLostError, match=r"^no answer in 0\.01 seconds$"):
        await Connection.open("http://127.0.0.1:1/mcp", 0.01)
    opening = asyncio.create_task(Connection.open("http://127.0.0.1:1/mcp", 60))
    await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await asyncio.wait({each.owner for each in opened}, timeout=5)
    assert [each.owner.cancelled() for each in opened] == [True, True]


async def test_a_session_that_does_not_end_by_itself_is_cancelled_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextlib.asynccontextmanager
    async def linger(self: Connection) -> AsyncIterator[Client]:
        yield Client()
        await asyncio.Event().wait()

    monkeypatch.setattr(Connection, "_open_client", linger)
    monkeypatch.setattr(connection_module, "CLOSE_SECONDS", 0.01)
    connection = await Connection.open("http://127.0.0.1:1/mcp", 5)
    connection.close()
    await asyncio.wait({connection.owner}, timeout=5)
    assert connection.owner.cancelled()


async def test_the_client_of_a_server_that_listens_uses_nothing_of_the_environment_and_waits_for_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with faked(Client(), monkeypatch) as connection, connection._open_http() as http:
        assert not http.trust_env
        assert (http.timeout.connect, http.timeout.write, http.timeout.read) == (10.0, 10.0, None)


def test_a_session_of_a_loop_that_is_over_can_still_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> Connection:
        async with faked(Client(), monkeypatch) as connection:
            return connection

    asyncio.run(scenario()).close()
