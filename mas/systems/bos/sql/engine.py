"""Schema of a table, rows and errors, alike for both engines."""

from collections.abc import Iterator, Sequence

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


def explain_timeout(limits: QueryLimits) -> str:
    return f"The query was stopped after {limits.seconds:g} seconds; write one that does less work."
