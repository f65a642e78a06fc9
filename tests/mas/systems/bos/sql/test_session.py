"""Session with the server of the databases: one process a run, replaced when it has died."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.contracts import AgentFailureError
from mas.systems.bos.settings import DatabaseSettings, SqlSettings
from mas.systems.bos.sql import session as module
from mas.systems.bos.sql.session import SqlSession, format_tables, open_sql_session
from mas.tools.mcp.connection import ServerCommand
from tests.mas.systems.bos.sql.hostile_queries import TABLES
from tests.mas.systems.bos.sql.sql_databases import make_sqlite


@pytest.fixture
def settings(tmp_path: Path) -> SqlSettings:
    file = make_sqlite(tmp_path / "shop.sqlite")
    return SqlSettings({"shop": DatabaseSettings(str(file), tables=TABLES)})


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

        schema = format_tables(run_blocking(session.read_schema("shop", ["orders"]))["tables"])
        assert schema.startswith("table orders\n  id INTEGER\n") and "  primary key (id)\n" in schema
        assert "foreign key (customer_id) references customers (id)" in schema and "table customers" not in schema
        assert "secret" not in str(run_blocking(session.read_schema("shop")))
        refused = run_blocking(session.query("SELECT * FROM secret_users", "shop"))
        assert (refused["success"], refused["error"]) == (
            False,
            "The table secret_users is not available; the tables are: customers, orders, products.",
        )
        with pytest.raises(AgentFailureError, match="There is no database 'other'; the databases are: shop"):
            run_blocking(session.query("SELECT 1", "other"))
    assert find_servers() == []


@pytest.mark.slow
def test_q27_a_server_that_has_died_is_replaced_and_without_one_it_is_a_configuration_error(
    settings: SqlSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_sql_session(settings) as session:
        for _ in range(3):
            assert ask(session) == [[3]]
            kill_server()
        broken = ServerCommand((sys.executable, "-c", "raise SystemExit('no server')"), {})
        monkeypatch.setattr(module, "make_server", lambda settings: broken)
        for _ in range(2):
            with pytest.raises(AgentFailureError, match="has stopped or cannot be started: no server"):
                ask(session)
        assert find_servers() == []


@pytest.mark.slow
def test_q27_calls_that_the_death_of_the_server_breaks_are_repeated(settings: SqlSettings) -> None:
    slow = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 400000) SELECT count(*) FROM r"
    with open_sql_session(settings) as session:

        async def ask_and_kill() -> list[object]:
            calls = [asyncio.create_task(session.query(slow, "shop")) for _ in range(4)]
            await asyncio.sleep(0.05)
            kill_server()
            return [(await call)["data"] for call in calls]

        assert run_blocking(ask_and_kill()) == [[[400000]]] * 4
