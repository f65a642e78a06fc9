"""Session with the server of the databases: one process a run, restarted once."""

import asyncio
import os
import signal
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.contracts.result import AgentFailureError
from mas.systems.bos.sql import session as module
from mas.systems.bos.sql.session import (
    SqlSession,
    open_sql_session,
)
from mas.systems.bos.sql.settings import DatabaseSettings, QueryLimits, SqlSettings, ToolMap
from mas.tools.mcp.connection import Offer, Reply
from tests.mas.systems.bos.sql.hostile_queries import TABLES
from tests.mas.systems.bos.sql.sql_databases import make_sqlite

TOOL = ToolMap("x")


@pytest.fixture
def settings(tmp_path: Path) -> SqlSettings:
    file = make_sqlite(tmp_path / "shop.sqlite")
    return SqlSettings({"shop": DatabaseSettings(str(file), tables=TABLES)}, QueryLimits(seconds=1))


def find_servers() -> list[int]:
    """Return the ids of this process's children that are servers of databases."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (folder / "stat").read_text(), (folder / "cmdline").read_text()
        except OSError:
            continue
        parent = int(status.rpartition(")")[2].split()[1])
        if parent == os.getpid() and "mas.systems.bos.sql.server" in command:
            found.append(int(folder.name))
    return found


def kill_server() -> None:
    (server,) = find_servers()
    os.kill(server, signal.SIGKILL)


def ask(session: SqlSession, query: str = "SELECT count(*) FROM customers") -> list[list[object]]:
    result = run_blocking(session.query(query, "shop"))
    assert result["success"], result
    return result["data"]


def test_q04_q07_q09_q26_one_server_answers_a_whole_run_and_checks_every_query_itself(settings: SqlSettings) -> None:
    with open_sql_session(settings) as session:
        (server,) = find_servers()

        async def ask_many() -> list[object]:
            return [r["data"] for r in await asyncio.gather(*(session.query(f"SELECT {n}", "shop") for n in range(20)))]

        assert run_blocking(ask_many()) == [[[n]] for n in range(20)]
        assert asyncio.run(session.query("SELECT 7", "shop"))["data"] == [[7]]  # another loop
        assert find_servers() == [server]
        assert session.guards["shop"].tables["customers"] == ["id", "name", "city"]

        schema = run_blocking(session.read_schema("shop", ["orders"]))
        assert schema.startswith("table orders\n  id INTEGER primary key\n")
        assert "foreign key customer_id -> customers.id" in schema and "table customers" not in schema
        assert "secret" not in run_blocking(session.read_schema("shop"))
        refused = run_blocking(session.query("SELECT * FROM secret_users", "shop"))
        assert (refused["success"], refused["error"]) == (
            False,
            "The table secret_users is not available; the tables are: customers, orders, products.",
        )
        unknown = run_blocking(session.query("SELECT 1", "other"))
        assert unknown["error"] == "There is no database 'other'; the databases are: shop."
    assert find_servers() == []


@pytest.mark.slow
def test_q27_a_server_that_dies_is_restarted_once_and_then_it_is_a_configuration_error(settings: SqlSettings) -> None:
    with open_sql_session(settings) as session:
        assert ask(session) == [[3]]
        kill_server()
        assert ask(session) == [[3]]
        assert ask(session) == [[3]]
        kill_server()
        for _ in range(2):
            with pytest.raises(AgentFailureError, match=r"stopped again after 1 restart \(.+\); the SQL agent"):
                ask(session)
        assert find_servers() == []


@pytest.mark.slow
def test_q27_calls_that_the_death_of_the_server_breaks_are_repeated(settings: SqlSettings) -> None:
    slow = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 400000) SELECT count(*) FROM r"
    settings.limits = QueryLimits(seconds=60)
    with open_sql_session(settings) as session:

        async def ask_and_kill() -> list[object]:
            calls = [asyncio.create_task(session.query(slow, "shop")) for _ in range(4)]
            await asyncio.sleep(0.05)
            kill_server()
            return [(await call)["data"] for call in calls]

        assert run_blocking(ask_and_kill()) == [[[400000]]] * 4


OTHER_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("other", log_level="ERROR")

@server.tool(name="execute_sql", structured_output=False)
def execute_sql(sql: str) -> str:
    rows = '[{"id": 1, "n": "%d"}]' % len(sql)
    return '{"success": true, "data": {"statements": [{"sql": "x", "rows": ' + rows + ', "count": 1}]}}'

@server.tool(name="search_objects", structured_output=False)
def search_objects(object_type: str) -> str:
    return "tables of " + object_type

server.run("stdio")
"""


SHOP = SqlSettings({"shop": DatabaseSettings("shop.sqlite", tables=["customers"])}, QueryLimits(seconds=2.5))


class Servers:
    """Servers that are opened one after another; together they give these replies, or raise them."""

    def __init__(self, *replies: Reply | Exception, offers: str = "mcp_db_query mcp_db_schema") -> None:
        self.replies, self.offers = list(replies), offers.split()
        self.opened: list[tuple[object, float]] = []
        self.made: list[ScriptedServer] = []
        self.calls: list[tuple[int, str, dict[str, object]]] = []  # number of the server, tool, arguments
        self.refusals: list[Exception | None] = []
        self.limits: list[float | None] = []  # of the times to wait

    async def open(self, server: object, seconds: float) -> "ScriptedServer":
        self.opened.append((server, seconds))
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None:
            raise refusal
        self.made.append(ScriptedServer(self, len(self.made) + 1))
        return self.made[-1]

    def timeout(self, seconds: float) -> asyncio.Timeout:
        self.limits.append(seconds)
        return asyncio.timeout(seconds)

    async def wait(self, tasks: Collection[asyncio.Task[None]], timeout: float | None = None) -> Any:  # noqa: ASYNC109
        self.limits.append(timeout)
        return await asyncio.wait(tasks, timeout=timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


class ScriptedServer:
    """One of the servers, as a connection to it."""

    def __init__(self, servers: Servers, number: int) -> None:
        self.servers, self.number, self.closing = servers, number, asyncio.Event()
        self.owner = asyncio.ensure_future(self.closing.wait())

    async def call(self, tool: str, arguments: Mapping[str, object]) -> Reply:
        self.servers.calls.append((self.number, tool, dict(arguments)))
        reply = self.servers.replies.pop(0)
        await asyncio.sleep(0)  # another call may begin
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def list_offers(self) -> list[Offer]:
        return [Offer(name, "", {}) for name in self.servers.offers]

    def close(self) -> None:
        self.closing.set()


def script(
    monkeypatch: pytest.MonkeyPatch, *replies: Reply | Exception, settings: SqlSettings = SHOP, **options: Any
) -> tuple[Servers, SqlSession]:
    servers = Servers(*replies, **options)
    monkeypatch.setattr(module, "Connection", servers)
    monkeypatch.setattr(module, "asyncio", servers)
    return servers, SqlSession(settings)
