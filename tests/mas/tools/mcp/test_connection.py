"""Sessions with a small MCP server: over standard input and output, over HTTP, and when it is none or dies."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mas.runtime.security.child_environment import build_child_environment
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
