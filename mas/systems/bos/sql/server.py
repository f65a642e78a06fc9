"""MCP server over databases that may be read: the tools `mcp_db_query` and `mcp_db_schema`, and no others.

`mas.systems.bos.sql.session` starts it and speaks with it over standard input and output:

    python -m mas.systems.bos.sql.server '{"shop": {"path": "shop.sqlite", "tables": ["orders"]}}'

Each query is checked again here, whether or not the client has checked it, and what the guard returns is run read-only,
with limits, on its own connection: nothing that a query does to its session can reach the next one.
"""

import json
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line
from mas.systems.bos.contracts import to_cell
from mas.systems.bos.settings import DatabaseSettings
from mas.systems.bos.sql.engines import (
    DatabaseError,
    DatabaseUnavailableError,
    PostgresEngine,
    Rows,
    SQLiteEngine,
    TableSchema,
)
from mas.systems.bos.sql.guard import Dialect, Guard, UnsafeQueryError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

QUERY_TOOL, SCHEMA_TOOL = "mcp_db_query", "mcp_db_schema"
MEMORY_BYTES = 4 * 2**30  # of the process: a huge value ends the server, not the machine
MAX_ROWS = 200  # of a result
MAX_BYTES = 100_000  # of its rows as JSON
ALL_TABLES = "*"


class SchemaResult(TypedDict):
    """Tables of a database that may be read."""

    dialect: str
    tables: list[TableSchema]


class QueryResult(TypedDict):
    """Result of a query; `data` holds one list per row, so that columns of the same name are kept."""

    success: bool
    columns: list[str]
    data: list[list[object]]
    row_count: int
    truncated: bool  # there are more rows than were returned
    error: str | None


class Database:
    """A database with its guard and the schema as it was when it was opened."""

    def __init__(self, name: str, settings: DatabaseSettings) -> None:
        """Connect, and read the schema of the listed tables; UserError: the database or a table is missing."""
        self.dialect: Dialect = "sqlite" if settings.path else "postgres"
        self._engine = SQLiteEngine(settings.path) if settings.path else PostgresEngine(name, settings.url_env or "")
        try:
            tables = {table["name"]: table for table in self._engine.read_schema()}
        except (DatabaseError, DatabaseUnavailableError) as error:
            raise UserError(f"Database {name!r} cannot be opened: {error}") from error
        if missing := [table for table in settings.tables if table not in tables and table != ALL_TABLES]:
            raise UserError(f"Database {name!r} has no table {missing[0]!r}; it has: {', '.join(tables) or 'none'}.")
        listed = tables if ALL_TABLES in settings.tables else {table: tables[table] for table in settings.tables}
        self._schema = listed
        self.guard = make_guard(self.dialect, list(listed.values()))

    def query(self, query: str) -> QueryResult:
        """Check a query, run it and return its rows, or the reason why there are none."""
        try:
            return self.run(self.guard.check(query))
        except UnsafeQueryError as error:
            return fail(str(error))

    def run(self, query: str) -> QueryResult:
        try:
            columns, rows = self._engine.execute(query, self.guard.tables)
            data, truncated = _take(rows)
        except DatabaseError as error:
            return fail(str(error))
        n = len(data)
        return QueryResult(success=True, columns=columns, data=data, row_count=n, truncated=truncated, error=None)

    def schema(self, tables: Sequence[str] = ()) -> list[TableSchema]:
        wanted = {name.lower() for name in tables}
        return [table for name, table in self._schema.items() if not wanted or name.lower() in wanted]


def make_guard(dialect: Dialect, tables: Sequence[TableSchema]) -> Guard:
    return Guard(dialect, {table["name"]: list(table["columns"]) for table in tables})


def _take(rows: Rows) -> tuple[list[list[object]], bool]:
    taken: list[list[object]] = []
    size = 0
    for row in rows:
        values: list[object] = [to_cell(value) for value in row]
        size += len(json.dumps(values, ensure_ascii=False).encode())
        if size > MAX_BYTES and not taken:
            raise DatabaseError(f"One row is larger than {MAX_BYTES} bytes; select fewer or shorter columns.")
        if len(taken) == MAX_ROWS or size > MAX_BYTES:
            rows.close()  # type: ignore[attr-defined]  # both engines return generators
            return taken, True
        taken.append(values)
    return taken, False


def fail(error: str) -> QueryResult:
    return QueryResult(success=False, columns=[], data=[], row_count=0, truncated=False, error=error)


def build_server(databases: Mapping[str, Database]) -> "MCPServer[None]":
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server: MCPServer[None] = MCPServer("bos-sql", log_level="ERROR")

    def find(name: str) -> Database:
        if name not in databases:
            raise ToolError(f"There is no database {name!r}; the databases are: {', '.join(databases)}.")
        return databases[name]

    @server.tool(name=QUERY_TOOL, description="Run one SELECT statement on a database and return its rows.")
    def run_query(query: str, database: str) -> QueryResult:
        try:
            return find(database).query(query)
        except DatabaseUnavailableError as error:
            raise ToolError(f"Database {database!r} is not available: {error}.") from error

    @server.tool(name=SCHEMA_TOOL, description="Return columns, types and keys of the tables that may be read.")
    def read_schema(database: str, tables: list[str] | None = None) -> SchemaResult:
        opened = find(database)
        return SchemaResult(dialect=opened.dialect, tables=opened.schema(tables or ()))

    return server


def main(settings: str) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        databases = {name: Database(name, DatabaseSettings(**each)) for name, each in json.loads(settings).items()}
    except UserError as error:
        print_line(str(error), error=True)
        return 1
    build_server(databases).run("stdio")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
