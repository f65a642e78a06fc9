"""Session with the server of the databases: one process a run, restarted once."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Collection, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.security.child_environment import build_child_environment
from mas.systems.bos.contracts.result import AgentFailureError
from mas.systems.bos.sql import session as module
from mas.systems.bos.sql.databases import fail
from mas.systems.bos.sql.guard import Guard
from mas.systems.bos.sql.session import (
    SqlSession,
    make_server,
    open_sql_session,
    read_foreign_result,
)
from mas.systems.bos.sql.settings import DatabaseSettings, QueryLimits, SqlSettings, ToolMap
from mas.tools.mcp.connection import ConnectionLostError, Offer, Reply, ServerCommand
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


CUSTOMERS: dict[str, Any] = {
    "name": "customers",
    "columns": [
        {"name": "id", "type": "INTEGER", "nullable": False, "primary_key": True},
        {"name": "name", "type": "TEXT", "nullable": False, "primary_key": False},
        {"name": "note", "type": "", "nullable": True, "primary_key": False},
    ],
    "foreign_keys": ["town -> towns.id", "id -> people.primary key"],
}
CUSTOMERS_TEXT = (
    "table customers\n  id INTEGER primary key\n  name TEXT not null\n  note\n"
    "  foreign key town -> towns.id\n  foreign key id -> people.primary key"
)
SCHEMA = Reply("", False, {"success": True, "dialect": "sqlite", "tables": [CUSTOMERS]})
ROWS = Reply("", False, {"success": True, "data": [[1]]})
SHOP = SqlSettings({"shop": DatabaseSettings("shop.sqlite", tables=["customers"])}, QueryLimits(seconds=2.5))
FOREIGN = SqlSettings(
    {"shop": DatabaseSettings(tables=["orders", "items"])},
    QueryLimits(max_chars=30),
    url="http://127.0.0.1:1/mcp",
    dialect="postgres",
    tool_map={
        "mcp_db_query": ToolMap("execute_sql", {"query": "sql"}, {"mode": "read"}),
        "mcp_db_schema": ToolMap("search_objects", fixed={"object_type": "table"}),
    },
)


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


def refuse(work: Coroutine[Any, Any, object]) -> tuple[str, str]:
    with pytest.raises(AgentFailureError) as refusal:
        run_blocking(work)
    return refusal.value.kind, str(refusal.value)


def test_a_session_is_opened_asked_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, session = script(monkeypatch, SCHEMA, ROWS, SCHEMA, SCHEMA)
    run_blocking(session.open())
    assert servers.opened == [(make_server(SHOP), 60.0)]
    assert session.guards == {"shop": Guard("sqlite", {"customers": ["id", "name", "note"]}, 10_000)}
    assert run_blocking(session.query("SELECT 1", "shop")) == {"success": True, "data": [[1]]}
    assert run_blocking(session.read_schema("shop", ["customers"])) == CUSTOMERS_TEXT
    assert run_blocking(session.read_schema("shop")) == CUSTOMERS_TEXT
    run_blocking(session.aclose())
    assert servers.calls == [
        (1, "mcp_db_schema", {"database": "shop"}),
        (1, "mcp_db_query", {"query": "SELECT 1", "database": "shop"}),
        (1, "mcp_db_schema", {"database": "shop", "tables": ["customers"]}),
        (1, "mcp_db_schema", {"database": "shop", "tables": []}),
    ]
    assert servers.limits == [60.0, 2.5 + 15.0, 60.0, 60.0, 5.0 + 6.0]
    assert servers.made[0].owner.done()
    said = "The server of the databases has stopped again after 0 restart (the session is closed); the SQL agent cannot"
    assert refuse(session.query("SELECT 1", "shop")) == ("ConfigurationError", f"{said} go on in this run.")
    assert len(servers.opened) == 1
    run_blocking(SqlSession(SHOP).aclose())  # there is nothing to end


def test_another_server_s_tools_are_called_with_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Reply("t" * 20_001, True)
    servers, session = script(
        monkeypatch, Reply('[{"n": 1}]', False), long, settings=FOREIGN, offers="execute_sql search_objects other"
    )
    run_blocking(session.open())
    assert servers.opened == [("http://127.0.0.1:1/mcp", 60.0)] and servers.calls == []
    assert session.guards == {"shop": Guard("postgres", {"orders": [], "items": []}, 30)}
    assert run_blocking(session.query("SELECT 1", "shop")) == module.read_foreign_result(Reply('[{"n": 1}]', False))
    assert run_blocking(session.read_schema("shop", ["orders"])) == "t" * 20_000
    assert servers.calls == [
        (1, "execute_sql", {"mode": "read", "sql": "SELECT 1"}),
        (1, "search_objects", {"object_type": "table"}),
    ]
    run_blocking(session.aclose())


@pytest.mark.parametrize(
    ("settings", "offers", "lacking"),
    [(SHOP, "other", "mcp_db_query, mcp_db_schema"), (FOREIGN, "mcp_db_query execute_sql", "search_objects")],
)
def test_a_server_without_the_tools_is_refused(
    monkeypatch: pytest.MonkeyPatch, settings: SqlSettings, offers: str, lacking: str
) -> None:
    servers, session = script(monkeypatch, settings=settings, offers=offers)
    said = f"The server of the databases lacks the tools {lacking}."
    assert refuse(session.open()) == ("ConfigurationError", said)
    with pytest.raises(UserError, match=f"^{said}$"), open_sql_session(settings):
        pass
    assert [server.owner.done() for server in servers.made] == [False, True], "the whole session ends it"
    servers.made[0].close()


def test_a_server_that_cannot_be_opened_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, session = script(monkeypatch)
    servers.refusals = [ConnectionLostError("no such program")]
    said = "The server of the databases could not be opened: no such program"
    assert refuse(session.open()) == ("ConfigurationError", said)
    with pytest.raises(UserError, match="lists no tables"), open_sql_session(SqlSettings({"a": DatabaseSettings("x")})):
        pass
    assert len(servers.opened) == 1, "settings are checked before anything is started"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply("no such tool", True), "no such tool"),
        (Reply("broken", True, {"success": True, "tables": []}), "broken"),
        (Reply("empty", False), "empty"),
        (Reply("text", False, {"success": False, "error": "no such database"}), "no such database"),
        (Reply("text", False, {"success": False, "error": None}), "text"),
    ],
)
def test_a_schema_that_is_none_is_a_configuration_error(
    monkeypatch: pytest.MonkeyPatch, reply: Reply, said: str
) -> None:
    _, session = script(monkeypatch, reply, reply)
    assert refuse(session.open()) == ("ConfigurationError", said)
    assert refuse(session.read_schema("shop")) == ("ConfigurationError", said)
    run_blocking(session.aclose())


def test_a_long_schema_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [CUSTOMERS] * 200
    _, session = script(monkeypatch, SCHEMA, Reply("", False, {"success": True, "tables": tables}))
    run_blocking(session.open())
    assert run_blocking(session.read_schema("shop")) == "\n".join([CUSTOMERS_TEXT] * 200)[:20_000]
    run_blocking(session.aclose())


def test_a_server_that_dies_is_replaced_once_and_its_call_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, session = script(monkeypatch, SCHEMA, ConnectionLostError("killed"), ROWS, ConnectionLostError("again"))
    run_blocking(session.open())
    assert run_blocking(session.query("SELECT 1", "shop"))["data"] == [[1]]
    assert [(number, tool) for number, tool, _ in servers.calls] == [
        (1, "mcp_db_schema"),
        (1, "mcp_db_query"),
        (2, "mcp_db_query"),
    ]
    assert servers.opened == [(make_server(SHOP), 60.0)] * 2 and servers.made[0].closing.is_set()
    said = (
        "The server of the databases has stopped again after 1 restart (again); the SQL agent cannot go on in this run."
    )
    assert refuse(session.query("SELECT 1", "shop")) == ("ConfigurationError", said)
    run_blocking(session.aclose())
    assert [server.owner.done() for server in servers.made] == [True, True]


def test_calls_that_one_death_breaks_are_repeated_on_one_new_server(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = ConnectionLostError("killed")
    servers, session = script(monkeypatch, SCHEMA, lost, lost, ROWS, ROWS)

    async def ask_two() -> list[object]:
        asked = [session.query("SELECT 1", "shop"), session.query("SELECT 2", "shop")]
        return [result["data"] for result in await asyncio.gather(*asked)]

    run_blocking(session.open())
    assert run_blocking(ask_two()) == [[[1]], [[1]]]
    assert [number for number, *_ in servers.calls] == [1, 1, 1, 2, 2] and len(servers.opened) == 2
    run_blocking(session.aclose())


def test_a_server_that_hangs_is_replaced_each_time_and_the_query_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hung = [TimeoutError(), TimeoutError(), TimeoutError()]
    servers, session = script(monkeypatch, SCHEMA, *hung, ConnectionLostError("killed"), ROWS)
    run_blocking(session.open())
    for _ in hung:
        assert run_blocking(session.query("SELECT 1", "shop")) == fail(
            "The query was stopped after 2.5 seconds; write one that does less work."
        )
    assert len(servers.opened) == 4 and len(servers.calls) == 4
    assert run_blocking(session.query("SELECT 1", "shop"))["data"] == [[1]], "its one restart is still left"
    run_blocking(session.aclose())
    assert [server.owner.done() for server in servers.made] == [True] * 5


def test_a_server_that_cannot_be_started_anew_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, session = script(monkeypatch, SCHEMA, ConnectionLostError("killed"))
    run_blocking(session.open())
    servers.refusals = [ConnectionLostError("no memory")]
    assert refuse(session.query("SELECT 1", "shop")) == (
        "ConfigurationError",
        "The server of the databases could not be started anew: no memory",
    )
    run_blocking(session.aclose())


def test_the_server_s_command_has_the_databases_and_the_variables_that_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SHOP_URL", "OTHER_KEY"):
        monkeypatch.setenv(name, f"value of {name}")
    databases = {"a": DatabaseSettings("a.sqlite", tables=["x"]), "b": DatabaseSettings(url_env="SHOP_URL")}
    own = make_server(SqlSettings(databases, QueryLimits(7, 8, 9.0, 10)))
    assert isinstance(own, ServerCommand)
    program, *arguments = own.command
    assert program == sys.executable and arguments[:2] == ["-m", "mas.systems.bos.sql.server"]
    assert [arguments[2], arguments[4]] == ["--databases", "--limits"] and len(arguments) == 6
    assert json.loads(arguments[3]) == {
        "a": {"path": "a.sqlite", "url_env": None, "tables": ["x"], "check_role": True},
        "b": {"path": None, "url_env": "SHOP_URL", "tables": [], "check_role": True},
    }
    assert json.loads(arguments[5]) == {"max_rows": 7, "max_bytes": 8, "seconds": 9.0, "max_chars": 10}
    assert own.environment == build_child_environment("SHOP_URL") != build_child_environment()
    other = make_server(SqlSettings(databases, command=["npx", "x"], environment=["OTHER_*"]))
    assert other == ServerCommand(["npx", "x"], build_child_environment("OTHER_*"))
    assert make_server(replace(FOREIGN, command=["npx"])) == "http://127.0.0.1:1/mcp"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply("", True), fail("the query failed")),
        (Reply("no such table", True, {"rows": [{"a": 1}]}), fail("no such table")),
        (Reply("x" * 201, False), fail(f"The server's reply is not JSON: {'x' * 200}")),
        (Reply("text", False, {"success": False, "error": ""}), fail("text")),
        (Reply("text", False, {"success": False, "error": "no"}), fail("no")),
        (Reply("[{}", False, {"success": True, "rows": [{"a": 1}]}), (["a"], [[1]])),
        (Reply('{"n": 3, "rows": [{"a": 1, "b": null}, {"b": 2}]}', False), (["a", "b"], [[1, None], [None, 2]])),
        (Reply('[{"sql": "x", "rows": []}, {"sql": "y", "rows": [{"a": 1}]}]', False), (["a"], [[1]])),
        (Reply('[{"sql": "x", "rows": []}]', False), ([], [])),
        (Reply('[{"rows": 3}]', False), (["rows"], [[3]])),
        (Reply('[{"a": 1}, 2]', False), ([], [])),
        (Reply('{"first": [], "second": {"deep": [{"a": 1}]}, "third": [{"b": 1}]}', False), (["a"], [[1]])),
        (Reply("3", False), ([], [])),
    ],
)
def test_the_whole_result_of_another_server(reply: Reply, expected: Any) -> None:
    if isinstance(expected, tuple):
        columns, data = expected
        parts = {"columns": columns, "data": data, "row_count": len(data), "truncated": False, "elapsed_ms": 0.0}
        expected = {"success": True, "error": None, **parts}
    assert read_foreign_result(reply) == expected
