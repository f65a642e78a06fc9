"""The server of the databases as any MCP client sees it."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.sql.session import make_server, open_sql_session
from mas.systems.bos.sql.settings import DatabaseSettings, SqlSettings
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
