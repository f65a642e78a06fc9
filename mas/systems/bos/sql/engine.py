"""Contract of a database engine: runs a query with limits, and refuses by itself what is not listed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from mas.systems.bos.sql.settings import QueryLimits

Rows = Iterator[Sequence[object]]


class ColumnSchema(TypedDict):
    """One column."""

    name: str
    type: str
    nullable: bool
    primary_key: bool


class TableSchema(TypedDict):
    """One table or view."""

    name: str
    columns: list[ColumnSchema]
    foreign_keys: list[str]  # "customer_id -> customers.id"


class DatabaseError(Exception):
    """The database refused or failed a query. The message is for the model that wrote it."""


class DatabaseUnavailableError(Exception):
    """The database cannot be reached. The message names no host, user or password."""


class Engine(Protocol):
    """One kind of database, without the guard."""

    def execute(self, query: str, tables: Iterable[str], limits: QueryLimits) -> tuple[list[str], Rows]:
        """Start a query and return its columns and rows.

        Raises:
            DatabaseError: the database refused it.
            DatabaseUnavailableError: there is no database.
        """
        ...

    def read_schema(self) -> list[TableSchema]:
        """Return all tables and views that the connection can see."""
        ...

    def find_excess(self, tables: Iterable[str]) -> str:
        """Return what the connection may do besides reading these tables; empty if nothing."""
        ...


def explain_timeout(limits: QueryLimits) -> str:
    return f"The query was stopped after {limits.seconds:g} seconds; write one that does less work."
