"""Session with the MCP server of the databases, shared by all samples of a run.

    shop = DatabaseSettings("shop.sqlite", tables=["orders"])
    with open_sql_session(SqlSettings(databases={"shop": shop})) as session:
        (await session.query("SELECT count(*) FROM orders", "shop"))["data"]     # [[58]]

A server that dies is started anew once a run, and the calls that it broke are repeated; after that a call raises
`ConfigurationError`. A server that does not answer a query in time is replaced as well, and that query fails.

Another server, such as dbhub, is attached with `command` or `url` and a map of its tools:

    SqlSettings(
        {"shop": DatabaseSettings(tables=["orders"])}, dialect="postgres", command=["npx", "@bytebase/dbhub"],
        tool_map={"mcp_db_query": ToolMap("execute_sql", {"query": "sql"}), "mcp_db_schema": ToolMap("search_objects")},
    )
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import cast

from mas.runtime.errors import UserError
from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.security.child_environment import build_child_environment
from mas.systems.bos.contracts.result import AgentFailureError
from mas.systems.bos.sql.databases import QueryResult, fail
from mas.systems.bos.sql.engine import TableSchema, explain_timeout
from mas.systems.bos.sql.guard import Dialect, Guard
from mas.systems.bos.sql.settings import QUERY_TOOL, SCHEMA_TOOL, SqlSettings
from mas.tools.mcp.connection import CLOSE_SECONDS, Connection, ConnectionLostError, Reply, ServerCommand

START_SECONDS = 60.0
SLACK_SECONDS = 15.0  # beyond the time of a query, for the server to say that it has stopped it
KILL_SECONDS = 6.0  # until a server that does not end by itself is killed
MAX_RESTARTS = 1
MAX_SCHEMA_CHARS = 20_000


def make_server(settings: SqlSettings) -> str | ServerCommand:
    """Return the server's address, or its command with the variables that it needs and no others."""
    if settings.url:
        return settings.url
    if settings.command:
        return ServerCommand(settings.command, build_child_environment(*settings.environment))
    databases = {name: asdict(database) for name, database in settings.list_databases().items()}
    addresses = [database.url_env for database in settings.list_databases().values() if database.url_env]
    module = (sys.executable, "-m", "mas.systems.bos.sql.server")
    options = ("--databases", json.dumps(databases), "--limits", json.dumps(asdict(settings.limits)))
    return ServerCommand((*module, *options), build_child_environment(*addresses))


class SqlSession:
    """Calls to the server, from any thread and event loop."""

    def __init__(self, settings: SqlSettings) -> None:
        self.settings = settings
        self.guards: Mapping[str, Guard] = {}  # by database
        self._server = make_server(settings)
        self._connection: Connection | None = None
        self._replacing = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()  # of servers that are being stopped
        self._restarts = 0

    async def query(self, query: str, database: str) -> QueryResult:
        """Run a query.

        Raises:
            AgentFailureError: the server is gone, or the database is.
        """
        seconds = self.settings.limits.seconds
        try:
            reply = await self._call(QUERY_TOOL, {"query": query, "database": database}, seconds + SLACK_SECONDS)
        except TimeoutError:
            return fail(explain_timeout(self.settings.limits))
        if self.settings.tool_map:
            return read_foreign_result(reply)
        if reply.failed or reply.data is None:
            raise AgentFailureError("ConfigurationError", reply.text or f"{QUERY_TOOL} returned nothing")
        return cast(QueryResult, reply.data)

    async def read_schema(self, database: str, tables: list[str] | None = None) -> str:
        """Return the listed tables, or of them those that are named, for a model to read.

        Raises:
            AgentFailureError: the server is gone, or does not know the database.
        """
        reply = await self._call(SCHEMA_TOOL, {"database": database, "tables": tables or []}, START_SECONDS)
        if self.settings.tool_map:
            return reply.text[:MAX_SCHEMA_CHARS]
        return "\n".join(format_table(table) for table in _tables(reply))[:MAX_SCHEMA_CHARS]

    async def open(self) -> None:
        """Open the session, and make a guard for each database from its tables.

        Raises:
            AgentFailureError: the server could not be started, or lacks a tool or a database.
        """
        try:
            self._connection = await Connection.open(self._server, START_SECONDS)
            offered = {offer.name for offer in await self._connection.list_offers()}
        except ConnectionLostError as error:
            message = f"The server of the databases could not be opened: {error}"
            raise AgentFailureError("ConfigurationError", message) from error
        wanted = {tool.tool for tool in self.settings.tool_map.values()} or {QUERY_TOOL, SCHEMA_TOOL}
        if missing := wanted - offered:
            raise AgentFailureError(
                "ConfigurationError", f"The server of the databases lacks the tools {', '.join(sorted(missing))}."
            )
        self.guards = {name: await self._make_guard(name) for name in self.settings.list_databases()}

    async def _make_guard(self, database: str) -> Guard:
        max_chars = self.settings.limits.max_chars
        if self.settings.tool_map:
            tables: dict[str, list[str]] = {table: [] for table in self.settings.list_databases()[database].tables}
            return Guard(cast(Dialect, self.settings.dialect), tables, max_chars)
        reply = await self._call(SCHEMA_TOOL, {"database": database}, START_SECONDS)
        columns = {table["name"]: [column["name"] for column in table["columns"]] for table in _tables(reply)}
        return Guard(cast(Dialect, (reply.data or {})["dialect"]), columns, max_chars)

    async def _call(self, tool: str, arguments: Mapping[str, object], seconds: float) -> Reply:
        """Call a tool on the loop that the connection belongs to."""
        if asyncio.get_running_loop() is not background_loop():
            there = asyncio.run_coroutine_threadsafe(self._call(tool, arguments, seconds), background_loop())
            return await asyncio.wrap_future(there)
        if self.settings.tool_map:
            other = self.settings.tool_map[tool]
            arguments = {**other.fixed, **{theirs: arguments[ours] for ours, theirs in other.arguments.items()}}
            tool = other.tool
        while True:
            connection = self._connection
            try:
                if connection is None:
                    raise ConnectionLostError("the session is closed")
                async with asyncio.timeout(seconds):
                    return await connection.call(tool, arguments)
            except TimeoutError:
                await self._replace(connection, counts=False)
                raise
            except ConnectionLostError as error:
                await self._replace(connection, counts=True, cause=str(error))

    async def _replace(self, dead: Connection | None, counts: bool, cause: str = "") -> None:
        """Start the server anew, unless another call has done so already.

        Raises:
            AgentFailureError: it has died too often, or could not be started.
        """
        async with self._replacing:
            if self._connection is not dead and self._connection is not None:
                return
            if dead is None or (counts and self._restarts == MAX_RESTARTS):
                raise AgentFailureError(
                    "ConfigurationError",
                    f"The server of the databases has stopped again after {self._restarts} restart ({cause}); the SQL "
                    "agent cannot go on in this run.",
                )
            dead.close()
            self._ending.add(dead.owner)
            self._restarts += counts
            try:
                self._connection = await Connection.open(self._server, START_SECONDS)
            except ConnectionLostError as error:
                message = f"The server of the databases could not be started anew: {error}"
                raise AgentFailureError("ConfigurationError", message) from error

    async def aclose(self) -> None:
        """End the session, and with it a server that it has started."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            self._ending.add(connection.owner)
        if self._ending:  # a server that hung and was replaced is killed by then
            await asyncio.wait(self._ending, timeout=CLOSE_SECONDS + KILL_SECONDS)


@contextmanager
def open_sql_session(settings: SqlSettings) -> Iterator[SqlSession]:
    """Open the session of a run.

    Raises:
        UserError: the settings are wrong, or there is no such server or database.
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


def read_foreign_result(reply: Reply) -> QueryResult:
    """Return the reply of another server's query tool; its rows are objects, in the first list of objects in it."""
    if reply.failed:
        return fail(reply.text or "the query failed")
    try:
        content = reply.data if reply.data is not None else json.loads(reply.text)
    except ValueError:
        return fail(f"The server's reply is not JSON: {reply.text[:200]}")
    if isinstance(content, dict) and content.get("success") is False:
        return fail(str(content.get("error") or reply.text))
    rows = _find_rows(content)
    columns = [str(name) for name in rows[0]] if rows else []
    data: list[list[object]] = [[row.get(name) for name in columns] for row in rows]
    return QueryResult(
        success=True,
        columns=columns,
        data=data,
        row_count=len(data),
        truncated=False,
        error=None,
        elapsed_ms=0.0,
    )


def _find_rows(content: object) -> list[dict[str, object]]:
    if isinstance(content, list) and content and all(isinstance(each, dict) for each in content):
        statements = [each["rows"] for each in content if isinstance(each.get("rows"), list)]
        return next((found for rows in statements if (found := _find_rows(rows))), [] if statements else content)
    if isinstance(content, dict):
        return next((found for value in content.values() if (found := _find_rows(value))), [])
    return []


def _tables(reply: Reply) -> list[TableSchema]:
    """Return the tables of our server's reply.

    Raises:
        AgentFailureError: it has none.
    """
    if reply.failed or not reply.data or not reply.data["success"]:
        raise AgentFailureError("ConfigurationError", str((reply.data or {}).get("error") or reply.text))
    return cast(list[TableSchema], reply.data["tables"])
