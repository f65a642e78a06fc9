"""PostgreSQL (optional extra `postgres`) in read-only transactions of a restricted role, which are rolled back."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from mas.runtime.errors import UserError
from mas.systems.bos.sql.engine import (
    ColumnSchema,
    DatabaseError,
    DatabaseUnavailableError,
    Rows,
    TableSchema,
    explain_timeout,
)
from mas.systems.bos.sql.guard import MAIN_SCHEMAS
from mas.systems.bos.sql.settings import QueryLimits

if TYPE_CHECKING:
    import psycopg

CONNECT_SECONDS = 10


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

    def execute(self, query: str, tables: Iterable[str], limits: QueryLimits) -> tuple[list[str], Rows]:
        rows = self._rows(query, limits)
        columns = next(rows)
        return [str(name) for name in columns], rows

    def _rows(self, query: str, limits: QueryLimits) -> Iterator[Sequence[object]]:
        """Yield the names of the columns, then the rows as they arrive."""
        import psycopg

        with (
            closing(self._connect(limits.seconds)) as connection,
            connection.cursor() as cursor,
        ):
            try:
                is_first = True
                # `stream` uses the extended protocol, in which a message holds one statement, and one row at a time.
                for row in cursor.stream(query.encode()):
                    if is_first:
                        yield [column.name for column in cursor.description or ()]
                        is_first = False
                    yield row
                if is_first:  # `stream` forgets the columns of a result without rows
                    cursor.execute(query.encode(), prepare=True)
                    yield [column.name for column in cursor.description or ()]
            except (psycopg.Error, MemoryError) as error:
                if isinstance(error, psycopg.errors.QueryCanceled):
                    raise DatabaseError(explain_timeout(limits)) from error
                message = error.diag.message_primary if isinstance(error, psycopg.Error) else None
                raise DatabaseError(message or type(error).__name__) from error

    def _connect(self, seconds: float) -> "psycopg.Connection[tuple[object, ...]]":
        import psycopg

        settings = {
            "default_transaction_read_only": "on",
            "statement_timeout": f"{max(1, round(seconds * 1000))}",
            "idle_in_transaction_session_timeout": f"{max(1, round(seconds * 3000))}",
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

    def _select(self, query: str, **values: object) -> list[tuple[object, ...]]:
        import psycopg

        with closing(self._connect(CONNECT_SECONDS)) as connection:
            try:
                return connection.execute(query.encode(), values).fetchall()
            except psycopg.Error as error:
                raise DatabaseError(error.diag.message_primary or type(error).__name__) from error

    def read_schema(self) -> list[TableSchema]:
        tables: dict[str, TableSchema] = {}
        for table, column, kind, required, key in self._select(_COLUMNS):
            schema = tables.setdefault(str(table), TableSchema(name=str(table), columns=[], foreign_keys=[]))
            schema["columns"].append(
                ColumnSchema(name=str(column), type=str(kind), nullable=not required, primary_key=bool(key))
            )
        for table, link in self._select(_LINKS):
            if str(table) in tables:
                tables[str(table)]["foreign_keys"].append(str(link))
        return list(tables.values())

    def find_excess(self, tables: Iterable[str]) -> str:
        main = MAIN_SCHEMAS["postgres"]
        listed = [table if "." in table else f"{main}.{table}" for table in tables]
        ((powers, tables_of_others, writable, functions),) = self._select(_RIGHTS, listed=listed)
        if powers:
            return f"has the rights of {powers}"
        if functions:
            return f"can call {functions}, which runs with the rights of its owner"
        if writable:
            return f"can write to {writable}"
        return f"can also read {tables_of_others}" if tables_of_others else ""


_RELATIONS = """
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
"""
_NAME = "CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END"
_COLUMNS = f"""
    SELECT {_NAME}, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
        coalesce((SELECT a.attnum = ANY (i.indkey) FROM pg_catalog.pg_index i
            WHERE i.indrelid = c.oid AND i.indisprimary), false)
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        AND a.attnum > 0 AND NOT a.attisdropped AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
    ORDER BY n.nspname, c.relname, a.attnum
"""
_LINKS = f"""
    SELECT {_NAME}, replace(pg_catalog.pg_get_constraintdef(k.oid), 'FOREIGN KEY ', '')
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE k.contype = 'f' ORDER BY k.conname
"""
_RIGHTS = f"""
    SELECT
        (SELECT string_agg(r.rolname, ', ') FROM pg_catalog.pg_roles r
            WHERE pg_catalog.pg_has_role(r.oid, 'MEMBER') AND (r.rolsuper OR r.rolname IN ('pg_read_all_data',
            'pg_write_all_data', 'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program'))),
        (SELECT string_agg({_NAME}, ', ') {_RELATIONS}
            AND NOT n.nspname || '.' || c.relname = ANY (%(listed)s)
            AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')),
        (SELECT string_agg({_NAME}, ', ') {_RELATIONS}
            AND pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')),
        (SELECT string_agg(p.proname, ', ') FROM pg_catalog.pg_proc p
            JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
            WHERE p.prosecdef AND n.nspname <> 'pg_catalog' AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
            AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE'))
"""
