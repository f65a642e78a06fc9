"""Session with the MCP server of the databases, shared by all samples of a run.

    shop = DatabaseSettings("shop.sqlite", tables=["orders"])
    with open_sql_session(SqlSettings(databases={"shop": shop})) as session:
        (await session.query("SELECT count(*) FROM orders", "shop"))["data"]     # [[58]]

A server that dies is started anew once a run, and the calls that it broke are repeated; after that a call raises
`ConfigurationError`. A server that does not answer a query in time is replaced as well, and that query fails.
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
from mas.systems.bos.sql.engines import TableSchema, explain_timeout
from mas.systems.bos.sql.guard import Dialect, Guard
from mas.systems.bos.sql.server import QUERY_TOOL, SCHEMA_TOOL, QueryResult, SchemaResult, fail
from mas.tools.mcp.connection import Connection, ConnectionLostError, ServerCommand

START_SECONDS = 60.0
SLACK_SECONDS = 15.0  # beyond the time of a query, for the server to say that it has stopped it
END_SECONDS = 11.0  # for a server to end; one that hangs is killed by then
MAX_RESTARTS = 1
MAX_SCHEMA_CHARS = 20_000


def make_server(settings: SqlSettings) -> ServerCommand:
    """Return the server's command, with the environment variables that it needs and no others."""
    databases = settings.list_databases()
    given = {name: asdict(database) for name, database in databases.items()}
    addresses = [database.url_env for database in databases.values() if database.url_env]
    argument = json.dumps({"databases": given, "limits": asdict(settings.limits)})
    command = (sys.executable, "-m", "mas.systems.bos.sql.server", argument)
    return ServerCommand(command, build_child_environment(*addresses))


class SqlSession:
    """Calls to the server, from any thread and event loop."""

    def __init__(self, settings: SqlSettings) -> None:
        self.settings = settings
        self.guards: dict[str, Guard] = {}  # by database
        self._connection: Connection | None = None
        self._replacing = asyncio.Lock()
        self._restarts = 0

    async def query(self, query: str, database: str) -> QueryResult:
        """Run a query.

        Raises:
            AgentFailureError: the server is gone, or the database is.
        """
        limits = self.settings.limits
        try:
            arguments = {"query": query, "database": database}
            return cast(QueryResult, await self._call(QUERY_TOOL, arguments, limits.seconds + SLACK_SECONDS))
        except TimeoutError:
            return fail(explain_timeout(limits))

    async def read_schema(self, database: str, tables: Sequence[str] = ()) -> str:
        """Return the listed tables, or of them those that are named, for a model to read.

        Raises:
            AgentFailureError: the server is gone, or does not know the database.
        """
        schema = await self._read_schema(database, tables)
        return "\n".join(format_table(table) for table in schema["tables"])[:MAX_SCHEMA_CHARS]

    async def _read_schema(self, database: str, tables: Sequence[str] = ()) -> SchemaResult:
        arguments = {"database": database, "tables": list(tables)}
        return cast(SchemaResult, await self._call(SCHEMA_TOOL, arguments, START_SECONDS))

    async def open(self) -> None:
        """Start the server, and make a guard for each database from its tables.

        Raises:
            AgentFailureError: the server could not be started.
        """
        await self._connect()
        for name in self.settings.list_databases():
            schema = await self._read_schema(name)
            columns = {table["name"]: [column["name"] for column in table["columns"]] for table in schema["tables"]}
            self.guards[name] = Guard(cast(Dialect, schema["dialect"]), columns)

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
                await self._replace(connection)
                raise
            except ConnectionLostError as error:
                await self._replace(connection, died=str(error))
            else:
                if reply.failed or reply.data is None:
                    message = reply.text or "The server of the databases returned nothing."
                    raise AgentFailureError("ConfigurationError", message)
                return reply.data

    async def _replace(self, old: Connection | None, died: str = "") -> None:
        """Start the server anew, unless another call has done so already.

        Args:
            old: the connection that is of no use any more.
            died: the reason why it ended; empty: it was too slow, which does not count as a restart.

        Raises:
            AgentFailureError: it has died too often, or could not be started.
        """
        async with self._replacing:
            if self._connection is not old and self._connection is not None:
                return
            if old is None or (died and self._restarts == MAX_RESTARTS):
                raise AgentFailureError(
                    "ConfigurationError",
                    f"The server of the databases has stopped again after {self._restarts} restart ({died}); the SQL "
                    "agent cannot go on in this run.",
                )
            await self.aclose()
            self._restarts += bool(died)
            await self._connect()

    async def aclose(self) -> None:
        """End the session, and with it the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            await asyncio.wait({connection.owner}, timeout=END_SECONDS)


@contextmanager
def open_sql_session(settings: SqlSettings) -> Iterator[SqlSession]:
    """Open the session of a run.

    Raises:
        UserError: the settings are wrong, or there is no such database.
    """
    settings.check()
    session = SqlSession(settings)
    try:
        try:
            run_blocking(session.open())
        except AgentFailureError as error:
            raise UserError(str(error)) from error
        yield session
    finally:
        run_blocking(session.aclose())


def format_table(table: TableSchema) -> str:
    """Return a table in a few lines, as a model reads it."""
    columns = [
        f"  {column['name']} {column['type']}".rstrip()
        + (" primary key" if column["primary_key"] else "" if column["nullable"] else " not null")
        for column in table["columns"]
    ]
    return "\n".join([f"table {table['name']}", *columns, *(f"  foreign key {key}" for key in table["foreign_keys"])])
