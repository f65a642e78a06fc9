"""Session with the server of the databases: one process a run, restarted once."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.systems.bos.contracts.result import AgentFailureError
from mas.systems.bos.sql.session import (
    SqlSession,
    make_server,
    open_sql_session,
    read_foreign_result,
)
from mas.systems.bos.sql.settings import DatabaseSettings, QueryLimits, SqlSettings, ToolMap
from mas.tools.mcp.connection import Reply
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


@pytest.mark.slow
def test_q24_a_server_that_does_not_answer_is_replaced(settings: SqlSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mas.systems.bos.sql.session.SLACK_SECONDS", 0.0)
    with open_sql_session(settings) as session:
        (server,) = find_servers()
        os.kill(server, signal.SIGSTOP)
        result = run_blocking(session.query("SELECT 1", "shop"))
        assert result["error"] == "The query was stopped after 1 seconds; write one that does less work."
        assert ask(session) == [[3]]
    assert not find_servers(), "the one that hung is gone, too"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply("no such database", failed=True), "no such database"),
        (Reply("broken", failed=True, data={"success": True}), "broken"),
        (Reply("", failed=False), "mcp_db_query returned nothing"),
    ],
    ids=["failed", "failed with data", "empty"],
)
def test_a_reply_without_a_result_ends_in_its_own_words(
    settings: SqlSettings, reply: Reply, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call(self: SqlSession, *given: object) -> Reply:
        return reply

    monkeypatch.setattr(SqlSession, "_call", call)
    with pytest.raises(AgentFailureError, match=said):
        asyncio.run(SqlSession(settings).query("SELECT 1", "shop"))


def test_the_server_gets_no_variable_that_it_does_not_need(
    settings: SqlSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("SHOP_URL", "postgresql://reader:pass-canary@host/shop")
    with open_sql_session(settings):
        (server,) = find_servers()
        environment = Path(f"/proc/{server}/environ").read_text()
        assert "canary" not in environment
    settings.databases["other"] = DatabaseSettings(url_env="SHOP_URL", tables=["x"])
    command = make_server(settings)
    assert not isinstance(command, str)
    assert command.environment["SHOP_URL"].endswith("/shop") and "OPENAI_API_KEY" not in command.environment
    assert "pass-canary" not in " ".join(command.command)


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why(settings: SqlSettings) -> None:
    settings.databases["shop"] = DatabaseSettings("missing.sqlite", tables=["x"])
    with pytest.raises(UserError, match="there is no file missing"), open_sql_session(settings):
        pass
    other = SqlSettings(settings.databases, command=[sys.executable, "-c", "raise SystemExit('no such thing')"])
    with pytest.raises(UserError, match="no such thing"), open_sql_session(other):
        pass


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SqlSettings({"a": DatabaseSettings("x")}), "system.sql.databases.a lists no tables"),
        (SqlSettings({"a": DatabaseSettings(tables=["x"])}), "needs either a path"),
        (SqlSettings(max_retries=-1), "system.sql.max_retries=-1 is out of range"),
        (SqlSettings(limits=QueryLimits(seconds=0)), "system.sql.limits.seconds=0 must be more than 0"),
        (SqlSettings({"a": DatabaseSettings("x")}, dialect="oracle"), "dialect=oracle is not known"),
        (SqlSettings({"a": DatabaseSettings("x")}, tool_map={"x": ToolMap("y")}), "it needs mcp_db_query and"),
        (
            SqlSettings({"a": DatabaseSettings()}, tool_map={"mcp_db_query": TOOL, "mcp_db_schema": TOOL}),
            "set its command or url",
        ),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(settings: SqlSettings, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        settings.check()


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


@pytest.mark.slow
def test_another_server_is_attached_by_a_map_of_its_tools(tmp_path: Path) -> None:
    script = tmp_path / "other.py"
    script.write_text(OTHER_SERVER)
    settings = SqlSettings(
        {"shop": DatabaseSettings(tables=["orders"])},
        command=[sys.executable, str(script)],
        dialect="postgres",
        tool_map={
            "mcp_db_query": ToolMap("execute_sql", {"query": "sql"}),
            "mcp_db_schema": ToolMap("search_objects", fixed={"object_type": "table"}),
        },
    )
    with open_sql_session(settings) as session:
        result = run_blocking(session.query("SELECT 1", "shop"))
        assert (result["columns"], result["data"], result["row_count"]) == (["id", "n"], [[1, "8"]], 1)
        assert run_blocking(session.read_schema("shop")) == "tables of table"
        assert session.guards["shop"].check("select o.any from orders o") == 'SELECT o.any FROM "public"."orders" AS o'
    settings.tool_map["mcp_db_schema"] = ToolMap("list_tables")
    with pytest.raises(UserError, match="lacks the tools list_tables"), open_sql_session(settings):
        pass


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply('[{"a": 1}, {"a": 2}]', False), (True, ["a"], [[1], [2]])),
        (Reply("", False, {"data": {"rows": []}}), (True, [], [])),
        (Reply('{"data": {"statements": [{"sql": "x", "rows": [], "count": 0}]}}', False), (True, [], [])),
        (Reply("no such table: x", True), (False, [], [])),
        (Reply("Error: not JSON", False), (False, [], [])),
        (Reply('{"success": false, "error": "no"}', False), (False, [], [])),
    ],
)
def test_results_of_another_server_are_read(reply: Reply, expected: tuple[bool, list[str], list[list[object]]]) -> None:
    result = read_foreign_result(reply)
    assert (result["success"], result["columns"], result["data"]) == expected
    assert bool(result["error"]) != result["success"]
