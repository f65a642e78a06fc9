"""SQLite read-only, with an authorizer that knows the listed tables and limits of time, memory and length."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from mas.systems.bos.sql.engine import (
    ColumnSchema,
    DatabaseError,
    DatabaseUnavailableError,
    Rows,
    TableSchema,
    explain_timeout,
)
from mas.systems.bos.sql.settings import QueryLimits

if TYPE_CHECKING:
    import sqlite3

HEAP_BYTES = 256 * 2**20  # of the whole process
VALUE_BYTES = 2**20
STEPS = 1000  # of its virtual machine, between two looks at the clock
_TABLE_FUNCTIONS = frozenset(("json_each", "json_tree"))
_FORBIDDEN_FUNCTIONS = frozenset(
    ("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "printf", "format", "randomblob", "zeroblob")
)


class SQLiteEngine:
    """A file of SQLite, opened read-only."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def execute(self, query: str, tables: Iterable[str], limits: QueryLimits) -> tuple[list[str], Rows]:
        """Start a query and return its columns and rows.

        Raises:
            DatabaseError: the database refused it.
            DatabaseUnavailableError: there is no database.
        """
        import sqlite3

        connection = self._connect()
        _restrict(connection, tables, limits)
        try:
            cursor = connection.execute(query)
        except (sqlite3.Error, sqlite3.Warning) as error:
            connection.close()
            raise DatabaseError(_explain(error, limits)) from error
        return [column[0] for column in cursor.description or ()], _read_rows(connection, cursor, limits)

    def _connect(self) -> "sqlite3.Connection":
        import sqlite3

        if not self._path.is_file():
            raise DatabaseUnavailableError(f"there is no file {self._path.name}")
        address = f"file:{quote(str(self._path.resolve()))}?mode=ro"
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        connection.text_factory = lambda value: value.decode(errors="replace")
        return connection

    def read_schema(self) -> list[TableSchema]:
        """Return all tables and views that the connection can see."""
        import sqlite3

        found = (
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        try:
            with closing(self._connect()) as connection:
                return [_read_table(connection, name) for (name,) in connection.execute(f"{found} ORDER BY name")]
        except sqlite3.Error as error:
            raise DatabaseError(f"{self._path.name}: {error}") from error

    def find_excess(self, tables: Iterable[str]) -> str:
        """Return what the connection may do besides reading these tables; empty if nothing."""
        return ""  # the authorizer allows the listed tables only


def _restrict(connection: "sqlite3.Connection", tables: Iterable[str], limits: QueryLimits) -> None:
    """Let the connection read these tables for a while, and nothing else.

    A view needs the tables that it reads to be listed as well: `within` may be a view, or a CTE of the same name.
    """
    import sqlite3

    allowed = {table.lower() for table in tables} | _TABLE_FUNCTIONS
    existing = {name.lower() for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    deadline = time.monotonic() + limits.seconds

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


def _read_rows(
    connection: "sqlite3.Connection", cursor: "sqlite3.Cursor", limits: QueryLimits
) -> Iterator[Sequence[object]]:
    import sqlite3

    with closing(connection):
        try:
            yield from cursor
        except (sqlite3.Error, MemoryError) as error:
            raise DatabaseError(_explain(error, limits)) from error


def _explain(error: Exception, limits: QueryLimits) -> str:
    if str(error) == "interrupted":
        return explain_timeout(limits)
    return str(error) or type(error).__name__


def _read_table(connection: "sqlite3.Connection", name: str) -> TableSchema:
    quoted = '"' + name.replace('"', '""') + '"'
    columns = [
        ColumnSchema(name=column, type=kind, nullable=not (required or key), primary_key=bool(key))
        for _, column, kind, required, _, key in connection.execute(f"PRAGMA table_info({quoted})")
    ]
    keys = connection.execute(f"PRAGMA foreign_key_list({quoted})")
    links = [f"{own} -> {table}.{other or 'primary key'}" for _, _, table, own, other, *_ in keys]
    return TableSchema(name=name, columns=columns, foreign_keys=links)
