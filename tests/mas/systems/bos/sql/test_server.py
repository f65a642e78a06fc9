"""The server of the databases as any MCP client sees it."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.sql import server as module
from mas.systems.bos.sql.databases import Database, fail, open_database
from mas.systems.bos.sql.engine import DatabaseUnavailableError
from mas.systems.bos.sql.session import make_server, open_sql_session
from mas.systems.bos.sql.settings import DatabaseSettings, QueryLimits, SqlSettings
from mas.tools.mcp.connection import Connection
from tests.mas.systems.bos.sql.hostile_queries import SECRET, SQLITE, TABLES
from tests.mas.systems.bos.sql.sql_databases import make_sqlite
from tests.servers.playwright_mcp import free_port


@contextmanager
def listening(file: Path) -> Iterator[str]:
    """Start the server on a free port, and yield its address."""
    command = make_server(SqlSettings({"shop": DatabaseSettings(str(file), tables=TABLES)}))
    assert not isinstance(command, str)
    port = free_port()
    process = subprocess.Popen([*command.command, "--http-port", str(port)], env=dict(command.environment))
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


async def connect(url: str) -> Connection:
    from mas.tools.mcp.connection import ConnectionLostError

    deadline = time.monotonic() + 60
    while True:
        try:
            return await Connection.open(url, 10)
        except ConnectionLostError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


@pytest.mark.slow
def test_q04_q09_it_listens_with_exactly_two_tools(tmp_path: Path) -> None:
    with listening(make_sqlite(tmp_path / "shop.sqlite")) as url:

        async def use() -> None:
            connection = await connect(url)
            offers = {offer.name: offer for offer in await connection.list_offers()}
            assert set(offers) == {"mcp_db_query", "mcp_db_schema"}
            assert set(offers["mcp_db_query"].schema["properties"]) == {"query", "database"}
            reply = await connection.call("mcp_db_query", {"query": "SELECT id FROM orders", "database": "shop"})
            assert reply.data is not None
            assert set(reply.data) == {
                *("success", "columns", "data", "row_count", "error"),
                *("truncated", "elapsed_ms"),
            }
            assert (reply.data["columns"], reply.data["data"]) == (["id"], [[1], [2], [3]])
            connection.close()

        run_blocking(use())
        settings = SqlSettings({"shop": DatabaseSettings()}, url=url)
        with open_sql_session(settings) as session:
            assert run_blocking(session.query("SELECT 5", "shop"))["data"] == [[5]]


@pytest.mark.slow
def test_q07_q23_hostile_queries_read_nothing_through_the_server(tmp_path: Path) -> None:
    file = make_sqlite(tmp_path / "shop.sqlite")
    settings = SqlSettings({"shop": DatabaseSettings(str(file), tables=TABLES)})
    with open_sql_session(settings) as session:
        for hostile in SQLITE:
            if hostile.kind != "bomb":
                result = run_blocking(session.query(hostile.query, "shop"))
                assert not result["success"] and SECRET not in str(result), hostile


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--databases", "{"], "must be JSON objects"),
        (["--databases", '{"shop": {"file": "x"}}'], "database 'shop' has the unknown keys file; known are path"),
        (["--databases", '{"shop": {"path": "x.sqlite", "tables": ["a"]}}'], "there is no file x.sqlite"),
        (["--databases", "{}", "--limits", '{"rows": 1}'], "--limits has the unknown keys rows"),
    ],
)
def test_wrong_arguments_end_it_with_a_sentence(arguments: list[str], message: str) -> None:
    command = [sys.executable, "-m", "mas.systems.bos.sql.server", *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert message in finished.stderr and len(finished.stderr.strip().splitlines()) == 1


class NotedServer:
    """Server that runs at once, and notes how."""

    def __init__(self) -> None:
        self.databases: Mapping[str, Database] = {}
        self.runs: list[tuple[tuple[object, ...], dict[str, object]]] = []

    def build(self, databases: Mapping[str, Database]) -> "NotedServer":
        self.databases = databases
        return self

    def run(self, *given: object, **options: object) -> None:
        self.runs.append((given, options))


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> NotedServer:
    server = NotedServer()
    monkeypatch.setattr(module, "build_server", server.build)
    return server


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The limits that the process would have been given; its own stay."""
    limits: list[tuple[object, ...]] = []
    resource = SimpleNamespace(
        RLIMIT_AS="space", setrlimit=lambda *given: limits.append(given), getrlimit=lambda kind: (f"{kind} now", 77)
    )
    monkeypatch.setattr(module, "resource", resource)
    return limits


@pytest.mark.parametrize(
    ("more", "limits", "run"),
    [
        ([], QueryLimits(), (("stdio",), {})),
        (
            ["--http-port", "3310", "--limits", '{"max_rows": 5, "seconds": 2.5}'],
            QueryLimits(max_rows=5, seconds=2.5),
            (("streamable-http",), {"host": "127.0.0.1", "port": 3310}),
        ),
    ],
)
def test_the_databases_are_opened_with_their_limits_before_it_listens(
    tmp_path: Path,
    noted: NotedServer,
    memory: list[tuple[object, ...]],
    more: list[str],
    limits: QueryLimits,
    run: tuple[object, ...],
) -> None:
    file = make_sqlite(tmp_path / "shop.sqlite")
    databases = {"shop": {"path": str(file), "tables": ["orders"]}, "other": {"path": str(file), "tables": ["*"]}}
    assert module.main(["--databases", json.dumps(databases), *more]) == 0
    assert noted.runs == [run] and memory == [("space", (4 * 2**30, 77))]
    tables = {name: (sorted(each.guard.tables), each.limits) for name, each in noted.databases.items()}
    assert tables == {"shop": (["orders"], limits), "other": ([*TABLES, "secret_users"], limits)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--databases", "{}", "--limits", "{"],
            "--databases and --limits must be JSON objects: Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1).",
        ),
        (
            ["--databases", '{"shop": {"path": "x", "b": 1, "a": 1}}'],
            "database 'shop' has the unknown keys a, b; known are path, url_env, tables, check_role.",
        ),
        (
            ["--databases", "{}", "--limits", '{"rows": 1}'],
            "--limits has the unknown keys rows; known are max_rows, max_bytes, seconds, max_chars.",
        ),
        (
            ["--databases", '{"shop": {"path": "x.sqlite", "tables": ["a"]}}'],
            "Database 'shop' cannot be opened: there is no file x.sqlite",
        ),
    ],
)
def test_wrong_arguments_are_told_on_the_side_of_errors(
    noted: NotedServer,
    memory: list[tuple[object, ...]],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert module.main(arguments) == 1
    assert capsys.readouterr() == ("", f"{message}\n") and noted.runs == []


def test_without_databases_it_does_not_begin(noted: NotedServer, memory: list[tuple[object, ...]]) -> None:
    for arguments in ([], ["--databases", "{}", "--http-port", "no number"]):
        with pytest.raises(SystemExit) as ended:
            module.main(arguments)
        assert ended.value.code == 2 and noted.runs == memory == []


def test_the_tools_answer_for_each_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp.server.mcpserver.exceptions import ToolError

    settings = DatabaseSettings(str(make_sqlite(tmp_path / "shop.sqlite")), tables=TABLES)
    shop, other = (open_database(name, settings, QueryLimits()) for name in ("shop", "other"))
    server = module.build_server({"shop": shop, "other": other})

    def call(tool: str, **arguments: object) -> Any:
        result: Any = asyncio.run(server.call_tool(tool, arguments))
        return result.structured_content

    unknown = "There is no database 'pets'; the databases are: shop, other."
    result = call("mcp_db_query", query="SELECT id FROM orders", database="shop")
    assert result.pop("elapsed_ms") >= 0
    whole = {"success": True, "columns": ["id"], "data": [[1], [2], [3]], "row_count": 3, "truncated": False}
    assert result == {**whole, "error": None}
    assert call("mcp_db_query", query="SELECT 1", database="pets") == fail(unknown)
    assert call("mcp_db_schema", database="shop") == {
        "success": True,
        "dialect": "sqlite",
        "tables": shop.schema(),
        "error": None,
    }
    assert call("mcp_db_schema", database="shop", tables=["Orders"])["tables"] == shop.schema(["orders"])
    assert call("mcp_db_schema", database="pets") == {"success": False, "dialect": "", "tables": [], "error": unknown}

    def refuse(query: str) -> Any:
        raise DatabaseUnavailableError("the connection was refused")

    monkeypatch.setattr(shop, "query", refuse)
    with pytest.raises(ToolError, match=r"Database 'shop' is not available: the connection was refused\."):
        call("mcp_db_query", query="SELECT 1", database="shop")
