"""Databases that a query is run on: files of SQLite, and PostgreSQL (optional extra `postgres`). Both are read-only.

SQLite has an authorizer that knows the listed tables, and limits of time, memory and length. A PostgreSQL is used by a
restricted role, in read-only transactions that are rolled back.
"""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from mas.runtime.errors import UserError

if TYPE_CHECKING:
    import psycopg

HEAP_BYTES = 256 * 2**20  # of the whole process
VALUE_BYTES = 2**20
STEPS = 1000  # of its virtual machine, between two looks at the clock
_TABLE_FUNCTIONS = frozenset(("json_each", "json_tree"))
_FORBIDDEN_FUNCTIONS = frozenset(
    ("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "printf", "format", "randomblob", "zeroblob")
)
CONNECT_SECONDS = 10
QUERY_SECONDS = 10.0  # that a query may take

Rows = Iterator[Sequence[object]]


class TableSchema(TypedDict):
    """One table or view."""

    name: str
    columns: dict[str, str]  # name → type
    keys: list[str]  # such as "foreign key (customer_id) references customers (id)"


class DatabaseError(Exception):
    """The database refused or failed a query. The message is for the model that wrote it."""


class DatabaseUnavailableError(Exception):
    """The database cannot be reached. The message names no host, user or password."""


def explain_timeout() -> str:
    return f"The query was stopped after {QUERY_SECONDS:g} seconds; write one that does less work."


class SQLiteEngine:
    """A file of SQLite, opened read-only."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def execute(self, query: str, tables: Iterable[str]) -> tuple[list[str], Rows]:
        connection = self._connect()
        _restrict(connection, tables)
        try:
            cursor = connection.execute(query)
        except (sqlite3.Error, sqlite3.Warning) as error:
            connection.close()
            raise DatabaseError(_explain(error)) from error
        return [column[0] for column in cursor.description or ()], _read_rows(connection, cursor)

    def _connect(self) -> sqlite3.Connection:
        if not self._path.is_file():
            raise DatabaseUnavailableError(f"there is no file {self._path.name}")
        address = f"file:{quote(str(self._path.resolve()))}?mode=ro"
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        connection.text_factory = lambda value: value.decode(errors="replace")
        return connection

    def read_schema(self) -> list[TableSchema]:
        """Return all tables and views that the connection can see."""
        found = (
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        try:
            with closing(self._connect()) as connection:
                return [_read_table(connection, name) for (name,) in connection.execute(f"{found} ORDER BY name")]
        except sqlite3.Error as error:
            raise DatabaseError(f"{self._path.name}: {error}") from error


def _restrict(connection: sqlite3.Connection, tables: Iterable[str]) -> None:
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


def _read_rows(connection: sqlite3.Connection, cursor: sqlite3.Cursor) -> Iterator[Sequence[object]]:
    with closing(connection):
        try:
            yield from cursor
        except (sqlite3.Error, MemoryError) as error:
            raise DatabaseError(_explain(error)) from error


def _explain(error: Exception) -> str:
    return explain_timeout() if str(error) == "interrupted" else str(error) or type(error).__name__


def _read_table(connection: sqlite3.Connection, name: str) -> TableSchema:
    quoted = '"' + name.replace('"', '""') + '"'
    columns = connection.execute(f"PRAGMA table_info({quoted})").fetchall()
    primary = ", ".join(column for _, column, _, _, _, is_key in columns if is_key)
    keys = [f"primary key ({primary})"] if primary else []
    for _, _, table, own, other, *_ in connection.execute(f"PRAGMA foreign_key_list({quoted})"):
        keys.append(f"foreign key ({own}) references {table}" + (f" ({other})" if other else ""))
    return TableSchema(name=name, columns={column: kind for _, column, kind, *_ in columns}, keys=keys)


class PostgresEngine:
    """A PostgreSQL, in read-only transactions that are rolled back."""

    def __init__(self, name: str, url_env: str) -> None:
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"Database {name!r} is a PostgreSQL; install its client with `pip install mas-harness[postgres]`."
            ) from error
        self._url = os.environ.get(url_env, "")
        if not self._url:
            raise UserError(
                f"Database {name!r} needs the environment variable {url_env}: postgresql://user:password@host/db."
            )

    def execute(self, query: str, tables: Iterable[str]) -> tuple[list[str], Rows]:
        rows = self._rows(query)
        return [str(name) for name in next(rows)], rows

    def _rows(self, query: str) -> Iterator[Sequence[object]]:
        """Yield the names of the columns, then the rows as they arrive."""
        import psycopg

        with closing(self._connect()) as connection, connection.cursor() as cursor:
            try:
                # `stream` uses the extended protocol, in which a message holds one statement, and one row at a time.
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

    def read_schema(self) -> list[TableSchema]:
        """Return all tables and views that the role may read."""
        import psycopg

        tables: dict[str, TableSchema] = {}
        with closing(self._connect()) as connection:
            try:
                for table, column, kind in connection.execute(_COLUMNS.encode()):
                    schema = tables.setdefault(str(table), TableSchema(name=str(table), columns={}, keys=[]))
                    schema["columns"][str(column)] = str(kind)
                for table, key in connection.execute(_KEYS.encode()):
                    if str(table) in tables:
                        tables[str(table)]["keys"].append(str(key))
            except psycopg.Error as error:
                raise DatabaseError(error.diag.message_primary or type(error).__name__) from error
        return list(tables.values())


_NAME = "CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END"
_COLUMNS = f"""
    SELECT {_NAME}, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        AND a.attnum > 0 AND NOT a.attisdropped AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
    ORDER BY n.nspname, c.relname, a.attnum
"""
_KEYS = f"""
    SELECT {_NAME}, pg_catalog.pg_get_constraintdef(k.oid)
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE k.contype IN ('p', 'f') ORDER BY k.contype DESC, k.conname
"""
