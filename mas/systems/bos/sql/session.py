"""Session with the MCP server of the databases, shared by all samples of a run.

A call that the death of the server breaks is repeated once with another one; after that it raises `ConfigurationError`.
A server that does not answer is replaced for the next call.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import cast

from mas.runtime.errors import UserError
from mas.runtime.event_loop import await_on_loop, run_blocking
from mas.runtime.security.child_environment import build_child_environment
from mas.systems.bos.contracts import AgentFailureError
from mas.systems.bos.settings import SqlSettings
from mas.systems.bos.sql.guard import Guard
from mas.systems.bos.sql.server import (
    QUERY_SECONDS,
    QUERY_TOOL,
    SCHEMA_TOOL,
    QueryResult,
    SchemaResult,
    TableSchema,
    explain_timeout,
    fail,
    make_guard,
)
from mas.tools.mcp.connection import Connection, ConnectionLostError, ServerCommand

START_SECONDS = 60.0
SLACK_SECONDS = 15.0  # beyond the time of a query, for the server to say that it has stopped it
END_SECONDS = 11.0  # for a server to end; one that hangs is killed by then
MAX_SCHEMA_CHARS = 20_000


def make_server(settings: SqlSettings) -> ServerCommand:
    """Return the server's command, with the environment variables that it needs and no others."""
    databases = settings.list_databases()
    addresses = [database.url_env for database in databases.values() if database.url_env]
    argument = json.dumps({name: asdict(database) for name, database in databases.items()})
    command = (sys.executable, "-m", "mas.systems.bos.sql.server", argument)
    return ServerCommand(command, build_child_environment(*addresses))


class SqlSession:
    """Calls to the server, from any thread and event loop."""

    def __init__(self, settings: SqlSettings) -> None:
        self.settings = settings
        self.guards: dict[str, Guard] = {}  # by database
        self._connection: Connection | None = None
        self._starting = asyncio.Lock()

    async def query(self, query: str, database: str) -> QueryResult:
        """Run a query; AgentFailureError: the server is gone, or the database is."""
        try:
            arguments = {"query": query, "database": database}
            called = self._call(QUERY_TOOL, arguments, QUERY_SECONDS + SLACK_SECONDS)
            return cast(QueryResult, await await_on_loop(called))
        except TimeoutError:
            return fail(explain_timeout())

    async def read_schema(self, database: str, tables: Sequence[str] = ()) -> SchemaResult:
        """Return the listed tables, or those of them that are named; raises as a query."""
        arguments = {"database": database, "tables": list(tables)}
        return cast(SchemaResult, await await_on_loop(self._call(SCHEMA_TOOL, arguments, START_SECONDS)))

    async def open(self) -> None:
        """Start the server, and make a guard for each database from its tables."""
        for name in self.settings.list_databases():
            schema = await self.read_schema(name)
            self.guards[name] = make_guard(schema["dialect"], schema["tables"])

    async def _call(self, tool: str, arguments: Mapping[str, object], seconds: float) -> Mapping[str, object]:
        for is_repeated in (False, True):
            connection = None
            try:
                connection = await self._connect()
                async with asyncio.timeout(seconds):
                    reply = await connection.call(tool, arguments)
                break
            except (ConnectionLostError, TimeoutError) as error:
                if self._connection is connection:
                    await self.aclose()
                if isinstance(error, TimeoutError):
                    raise
                if is_repeated:
                    message = f"The server of the databases has stopped or cannot be started: {error}"
                    raise AgentFailureError("ConfigurationError", message) from error
        if reply.failed or reply.data is None:
            message = reply.text or "The server of the databases returned nothing."
            raise AgentFailureError("ConfigurationError", message)
        return reply.data

    async def _connect(self) -> Connection:
        async with self._starting:
            if self._connection is None:
                self._connection = await Connection.open(make_server(self.settings), START_SECONDS)
            return self._connection

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            await asyncio.wait({connection.owner}, timeout=END_SECONDS)


@contextmanager
def open_sql_session(settings: SqlSettings) -> Iterator[SqlSession]:
    """Open the session of a run; UserError: there is no such database."""
    session = SqlSession(settings)
    try:
        run_blocking(session.open())
        yield session
    except AgentFailureError as error:
        raise UserError(str(error)) from error
    finally:
        run_blocking(session.aclose())


def format_tables(tables: Sequence[TableSchema]) -> str:
    lines = []
    for table in tables:
        lines.append(f"table {table['name']}")
        lines += [f"  {name} {kind}".rstrip() for name, kind in table["columns"].items()]
        lines += [f"  {key}" for key in table["keys"]]
    return "\n".join(lines)[:MAX_SCHEMA_CHARS]
