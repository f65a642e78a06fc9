"""MCP server over databases that may be read, with the tools `mcp_db_query` and `mcp_db_schema`.

`mas.systems.bos.sql.session` starts it and speaks with it over standard input and output:

    python -m mas.systems.bos.sql.server '{"shop": {"path": "shop.sqlite", "tables": ["orders"]}}'

Each query is checked again here, whether or not the client has checked it, and what the guard returns is run read-only,
with limits, on its own connection: nothing that a query does to its session can reach the next one. A file of SQLite
has an authorizer that knows the listed tables. A PostgreSQL (optional extra `postgres`) is used by a restricted role.
"""

import json
import os
import resource
import sqlite3
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line
from mas.systems.bos.contracts import to_cell
from mas.systems.bos.settings import DatabaseSettings
from mas.systems.bos.sql.guard import Dialect, Guard, UnsafeQueryError

if TYPE_CHECKING:
    import psycopg
    from mcp.server.mcpserver import MCPServer

QUERY_TOOL, SCHEMA_TOOL = "mcp_db_query", "mcp_db_schema"
MEMORY_BYTES = 4 * 2**30  # of the process: a huge value ends the server, not the machine
HEAP_BYTES = 256 * 2**20  # of SQLite, in the whole process
VALUE_BYTES = 2**20  # of a value of SQLite
STEPS = 1000  # of SQLite's virtual machine, between two looks at the clock
CONNECT_SECONDS = 10
QUERY_SECONDS = 10.0  # that a query may take
MAX_ROWS = 200  # of a result
MAX_BYTES = 100_000  # of its rows as JSON
ALL_TABLES = "*"
_TABLE_FUNCTIONS = frozenset(("json_each", "json_tree"))
_FORBIDDEN_FUNCTIONS = frozenset(
    ("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "printf", "format", "randomblob", "zeroblob")
)

Rows = Generator[Sequence[object], None, None]


class TableSchema(TypedDict):
    """One table or view."""

    name: str
    columns: dict[str, str]  # name → type
    keys: list[str]  # such as "foreign key (customer_id) references customers (id)"


class SchemaResult(TypedDict):
    """Tables of a database that may be read."""

    dialect: Dialect
    tables: list[TableSchema]


class QueryResult(TypedDict):
    """Result of a query; `data` holds one list per row, so that columns of the same name are kept."""

    success: bool
    columns: list[str]
    data: list[list[object]]
    row_count: int
    truncated: bool  # there are more rows than were returned
    error: str | None


def fail(error: str) -> QueryResult:
    return QueryResult(success=False, columns=[], data=[], row_count=0, truncated=False, error=error)


def explain_timeout() -> str:
    return f"The query was stopped after {QUERY_SECONDS:g} seconds; write one that does less work."


class DatabaseError(Exception):
    """The database refused or failed a query. The message is for the model that wrote it."""


class DatabaseUnavailableError(Exception):
    """The database cannot be reached. The message names no host, user or password."""


class Engine(ABC):
    """Kind of database."""

    dialect: ClassVar[Dialect]
    columns_query: ClassVar[str]  # table or view, column and type of all that can be read
    keys_query: ClassVar[str]  # table, and a primary or foreign key of it in words

    @abstractmethod
    def execute(self, query: str, tables: Collection[str] | None) -> Rows:
        """Yield the names of the columns, then the rows; SQLite reads only these tables (None: all)."""

    def read_schema(self) -> dict[str, TableSchema]:
        """Return all tables and views that the connection can see, by name."""
        columns, keys = (list(self.execute(query, None))[1:] for query in (self.columns_query, self.keys_query))
        schema: dict[str, TableSchema] = {}
        for table, column, kind in columns:
            known = schema.setdefault(str(table), TableSchema(name=str(table), columns={}, keys=[]))
            known["columns"][str(column)] = str(kind)
        for table, key in keys:
            if str(table) in schema:
                schema[str(table)]["keys"].append(str(key))
        return schema


class SQLiteEngine(Engine):
    """A file of SQLite, opened read-only."""

    dialect = "sqlite"
    columns_query = """
        SELECT t.name, c.name, c.type FROM sqlite_schema t, pragma_table_info(t.name) c
        WHERE t.type IN ('table', 'view') AND t.name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY t.name, c.cid
    """
    keys_query = """
        SELECT t.name, 'primary key (' || group_concat(c.name, ', ') || ')'
        FROM sqlite_schema t, pragma_table_info(t.name) c WHERE c.pk > 0 GROUP BY t.name
        UNION ALL
        SELECT t.name, 'foreign key (' || k."from" || ') references ' || k."table"
            || coalesce(' (' || k."to" || ')', '')
        FROM sqlite_schema t, pragma_foreign_key_list(t.name) k
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def execute(self, query: str, tables: Collection[str] | None) -> Rows:
        if not self._path.is_file():
            raise DatabaseUnavailableError(f"there is no file {self._path.name}")
        address = f"file:{quote(str(self._path.resolve()))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            connection.text_factory = lambda value: value.decode(errors="replace")
            try:
                if tables is not None:
                    _restrict(connection, tables)
                cursor = connection.execute(query)
                yield [column[0] for column in cursor.description or ()]
                yield from cursor
            except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
                reason = explain_timeout() if str(error) == "interrupted" else str(error) or type(error).__name__
                raise DatabaseError(reason) from error


def _restrict(connection: sqlite3.Connection, tables: Collection[str]) -> None:
    """Let the connection read these tables for a while, and nothing else.

    A view needs the tables that it reads to be listed as well: `within` may be a view, or a CTE of the same name.
    """
    allowed = {table.lower() for table in tables} | _TABLE_FUNCTIONS
    existing = {name.lower() for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    deadline = time.monotonic() + QUERY_SECONDS

    def authorize(action: int, first: str | None, second: str | None, schema: str | None, within: str | None) -> int:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and (name := (first or "").lower()):
            is_cte = not second and name not in existing and not name.startswith(("sqlite_", "pragma_"))
            return sqlite3.SQLITE_OK if name in allowed or is_cte else sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN_FUNCTIONS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    for setting in (f"hard_heap_limit={HEAP_BYTES}", "query_only=1", "trusted_schema=0", "temp_store=2"):
        connection.execute(f"PRAGMA {setting}")
    for function in _TABLE_FUNCTIONS:  # registered now: SQLite asks the authorizer whether it may
        connection.execute(f"SELECT 1 FROM {function}('[]')")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    connection.set_authorizer(authorize)


_NAME = "CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END"


class PostgresEngine(Engine):
    """A PostgreSQL, in read-only transactions that are rolled back. Its role limits what is read."""

    dialect = "postgres"
    columns_query = f"""
        SELECT {_NAME}, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)
        FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p')
            AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
            AND a.attnum > 0 AND NOT a.attisdropped AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
        ORDER BY n.nspname, c.relname, a.attnum
    """
    keys_query = f"""
        SELECT {_NAME}, pg_catalog.pg_get_constraintdef(k.oid)
        FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE k.contype IN ('p', 'f') ORDER BY k.contype DESC, k.conname
    """

    def __init__(self, name: str, url_env: str) -> None:
        if find_spec("psycopg") is None:
            raise UserError(
                f"Database {name!r} is a PostgreSQL; install its client with `pip install mas-harness[postgres]`."
            )
        self._url = os.environ.get(url_env, "")
        if not self._url:
            raise UserError(
                f"Database {name!r} needs the environment variable {url_env}: postgresql://user:password@host/db."
            )

    def execute(self, query: str, tables: Collection[str] | None) -> Rows:
        import psycopg

        with closing(self._connect()) as connection, connection.cursor() as cursor:
            try:
                # `stream` uses the extended protocol: one statement in a message, one row at a time.
                rows = cursor.stream(query.encode())
                first = next(rows, None)
                if first is None:  # `stream` forgets the columns of a result without rows
                    cursor.execute(query.encode(), prepare=True)
                yield [column.name for column in cursor.description or ()]
                if first is not None:
                    yield first
                yield from rows
            except psycopg.errors.QueryCanceled as error:
                raise DatabaseError(explain_timeout()) from error
            except psycopg.Error as error:
                raise DatabaseError(error.diag.message_primary or type(error).__name__) from error

    def _connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        import psycopg

        settings = {
            "default_transaction_read_only": "on",
            "statement_timeout": f"{max(1, round(QUERY_SECONDS * 1000))}",
            "idle_in_transaction_session_timeout": f"{max(1, round(QUERY_SECONDS * 3000))}",
            "lock_timeout": "1000",
            "search_path": "public",
            "standard_conforming_strings": "on",
            "jit": "off",
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        try:
            connection = psycopg.connect(self._url, options=options, connect_timeout=CONNECT_SECONDS)
            connection.read_only = True
        except psycopg.Error as error:
            raise DatabaseUnavailableError(f"the connection was refused ({type(error).__name__})") from None
        return connection


class Database:
    """A database with its guard and the schema as it was when it was opened."""

    def __init__(self, name: str, settings: DatabaseSettings) -> None:
        """Connect, and read the listed tables' schema; UserError: database or table is missing."""
        self._engine = SQLiteEngine(settings.path) if settings.path else PostgresEngine(name, settings.url_env or "")
        try:
            tables = self._engine.read_schema()
        except (DatabaseError, DatabaseUnavailableError) as error:
            raise UserError(f"Database {name!r} cannot be opened: {error}") from error
        if missing := [table for table in settings.tables if table not in tables and table != ALL_TABLES]:
            raise UserError(f"Database {name!r} has no table {missing[0]!r}; it has: {', '.join(tables) or 'none'}.")
        listed = tables if ALL_TABLES in settings.tables else {table: tables[table] for table in settings.tables}
        self._schema = listed
        self.guard = make_guard(self._engine.dialect, list(listed.values()))

    def query(self, query: str) -> QueryResult:
        """Check a query, run it and return its rows, or the reason why there are none."""
        try:
            return self.run(self.guard.check(query))
        except UnsafeQueryError as error:
            return fail(str(error))

    def run(self, query: str) -> QueryResult:
        data: list[list[object]] = []
        size, truncated = 0, False
        try:
            with closing(self._engine.execute(query, self.guard.tables)) as rows:
                columns = [str(name) for name in next(rows)]
                for row in rows:
                    values = [to_cell(value) for value in row]
                    size += len(json.dumps(values, ensure_ascii=False).encode())
                    if size > MAX_BYTES and not data:
                        return fail(f"One row is larger than {MAX_BYTES} bytes; select fewer or shorter columns.")
                    if truncated := len(data) == MAX_ROWS or size > MAX_BYTES:
                        break
                    data.append(values)
        except DatabaseError as error:
            return fail(str(error))
        n = len(data)
        return QueryResult(success=True, columns=columns, data=data, row_count=n, truncated=truncated, error=None)

    def schema(self, tables: Sequence[str] = ()) -> list[TableSchema]:
        wanted = {name.lower() for name in tables}
        return [table for name, table in self._schema.items() if not wanted or name.lower() in wanted]


def make_guard(dialect: Dialect, tables: Sequence[TableSchema]) -> Guard:
    return Guard(dialect, {table["name"]: list(table["columns"]) for table in tables})


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
        return SchemaResult(dialect=opened.guard.dialect, tables=opened.schema(tables or ()))

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
