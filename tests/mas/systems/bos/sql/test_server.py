"""The server of the databases as any MCP client sees it."""

from pathlib import Path

import pytest

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.settings import DatabaseSettings, SqlSettings
from mas.systems.bos.sql.session import make_server, open_sql_session
from mas.tools.mcp.connection import Connection
from tests.mas.systems.bos.sql.hostile_queries import SECRET, SQLITE, TABLES
from tests.mas.systems.bos.sql.sql_databases import make_sqlite


@pytest.fixture
def settings(tmp_path: Path) -> SqlSettings:
    file = make_sqlite(tmp_path / "shop.sqlite")
    return SqlSettings({"shop": DatabaseSettings(str(file), tables=TABLES)})


@pytest.mark.slow
def test_q04_q09_it_has_exactly_two_tools(settings: SqlSettings) -> None:
    async def use() -> None:
        connection = await Connection.open(make_server(settings), 60)
        offers = {offer.name: offer for offer in await connection.list_tools()}
        assert set(offers) == {"mcp_db_query", "mcp_db_schema"}
        assert set(offers["mcp_db_query"].input_schema["properties"]) == {"query", "database"}
        reply = await connection.call("mcp_db_query", {"query": "SELECT id FROM orders", "database": "shop"})
        assert reply.data is not None
        assert set(reply.data) == {
            *("success", "columns", "data", "row_count", "error", "truncated"),
        }
        assert (reply.data["columns"], reply.data["data"]) == (["id"], [[1], [2], [3]])
        connection.close()

    run_blocking(use())


@pytest.mark.slow
def test_q07_q23_hostile_queries_read_nothing_through_the_server(settings: SqlSettings) -> None:
    with open_sql_session(settings) as session:
        for hostile in SQLITE:
            if hostile.kind != "bomb":
                result = run_blocking(session.query(hostile.query, "shop"))
                assert not result["success"] and SECRET not in str(result), hostile
