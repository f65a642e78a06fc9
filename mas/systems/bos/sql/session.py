"""Session with the MCP server of the databases, shared by all samples of a run.

A server that dies or does not answer is restarted once a run, and the calls that its death broke are repeated; after
that a call raises `ConfigurationError`.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import cast

from mas.runtime.errors import UserError
from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.security.child_environment import build_child_environment
from mas.systems.bos.contracts import AgentFailureError
from mas.systems.bos.settings import SqlSettings
from mas.systems.bos.sql.engines import QUERY_SECONDS, TableSchema, explain_timeout
from mas.systems.bos.sql.guard import Dialect, Guard
from mas.systems.bos.sql.server import QUERY_TOOL, SCHEMA_TOOL, QueryResult, SchemaResult, fail, make_guard
from mas.tools.mcp.connection import Connection, ConnectionLostError, ServerCommand

START_SECONDS = 60.0
SLACK_SECONDS = 15.0  # beyond the time of a query, for the server to say that it has stopped it
END_SECONDS = 11.0  # for a server to end; one that hangs is killed by then
MAX_RESTARTS = 1
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
        self._restarting = asyncio.Lock()
        self._restarts = 0

    async def query(self, query: str, database: str) -> QueryResult:
        """Run a query; AgentFailureError: the server is gone, or the database is."""
        try:
            arguments = {"query": query, "database": database}
            return cast(QueryResult, await self._call(QUERY_TOOL, arguments, QUERY_SECONDS + SLACK_SECONDS))
        except TimeoutError:
            return fail(explain_timeout())

    async def read_schema(self, database: str, tables: Sequence[str] = ()) -> SchemaResult:
        """Return the listed tables, or of them those that are named.

        Raises:
            AgentFailureError: the server is gone, or does not know the database.
        """
        arguments = {"database": database, "tables": list(tables)}
        return cast(SchemaResult, await self._call(SCHEMA_TOOL, arguments, START_SECONDS))

    async def open(self) -> None:
        """Start the server, and make a guard for each database from its tables."""
        await self._connect()
        for name in self.settings.list_databases():
            schema = await self.read_schema(name)
            self.guards[name] = make_guard(cast(Dialect, schema["dialect"]), schema["tables"])

    async def _connect(self) -> None:
        try:
            self._connection = await Connection.open(make_server(self.settings), START_SECONDS)
        except ConnectionLostError as error:
            message = f"The server of the databases could not be started: {error}"
            raise AgentFailureError("ConfigurationError", message) from error

    async def _call(self, tool: str, arguments: Mapping[str, object], seconds: float) -> Mapping[str, object]:
        """Return what a tool returns; it is called on the loop that the connection belongs to."""
        if asyncio.get_running_loop() is not background_loop():
            there = asyncio.run_coroutine_threadsafe(self._call(tool, arguments, seconds), background_loop())
            return await asyncio.wrap_future(there)
        while True:
            connection = self._connection
            try:
                if connection is None:
                    raise ConnectionLostError("the session is closed")
                async with asyncio.timeout(seconds):
                    reply = await connection.call(tool, arguments)
            except TimeoutError:
                await self._restart(connection, "it did not answer")
                raise
            except ConnectionLostError as error:
                await self._restart(connection, str(error))
            else:
                if reply.failed or reply.data is None:
                    message = reply.text or "The server of the databases returned nothing."
                    raise AgentFailureError("ConfigurationError", message)
                return reply.data

    async def _restart(self, old: Connection | None, reason: str) -> None:
        """Start the server again once in a run, unless another call has done so already."""
        async with self._restarting:
            if self._connection is not old and self._connection is not None:
                return
            if old is None or self._restarts == MAX_RESTARTS:
                raise AgentFailureError(
                    "ConfigurationError",
                    f"The server of the databases has stopped again after {self._restarts} restart ({reason}); the SQL "
                    "agent cannot go on in this run.",
                )
            await self.aclose()
            self._restarts += 1
            await self._connect()

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
        try:
            run_blocking(session.open())
        except AgentFailureError as error:
            raise UserError(str(error)) from error
        yield session
    finally:
        run_blocking(session.aclose())


def format_tables(tables: Sequence[TableSchema]) -> str:
    lines = []
    for table in tables:
        lines.append(f"table {table['name']}")
        lines += [f"  {name} {kind}".rstrip() for name, kind in table["columns"].items()]
        lines += [f"  {key}" for key in table["keys"]]
    return "\n".join(lines)[:MAX_SCHEMA_CHARS]
