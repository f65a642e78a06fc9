"""Contract of an agent, and its result: status, answer, table, error and trace.

table = TabularResult.from_lists(["id", "id"], [[1, 2]])      # columns id and id_2
AgentResult(agent="sql", status="succeeded", answer="One row.", tabular=table)
AgentResult(agent="sql", status="failed", error=AgentError(message="no such column", type="QueryError"))
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, computed_field, field_validator, model_validator

from mas.runtime.text import replace_surrogates, to_jsonable
from mas.systems.bos.contracts.events import TraceEvent
from mas.systems.bos.contracts.request import AgentName

Cell = str | int | float | bool | None | list[object] | dict[str, object]  # what JSON can hold


class AgentExecutionStatus(StrEnum):
    """Status of an agent in one request."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"

    def move_to(self, after: "AgentExecutionStatus") -> "AgentExecutionStatus":
        """Return the next status.

        Raises:
            ValueError: the transition is not allowed.
        """
        if after not in _TRANSITIONS.get(self, ()):
            allowed = ", ".join(_TRANSITIONS.get(self, ())) or "none: it is final"
            raise ValueError(f"an agent cannot go from {self} to {after}; allowed: {allowed}")
        return after


_Status = AgentExecutionStatus
_TRANSITIONS = {
    _Status.PENDING: (_Status.RUNNING, _Status.SKIPPED),
    _Status.RUNNING: (_Status.SUCCEEDED, _Status.FAILED, _Status.SKIPPED),
}


class AgentError(BaseModel):
    """Error of an agent. Immutable. `details` are for whoever debugs, never for the user's answer."""

    model_config = ConfigDict(frozen=True)

    message: str
    type: str  # PlanningDeclined, QueryError, HttpError, HttpRequestError, PathResolutionError, SandboxViolation,
    # SandboxTimeout, ConfigurationError, TurnLimit, or the name of an exception's class
    details: dict[str, object] = Field(default_factory=dict)

    @field_validator("details", mode="before")
    @classmethod
    def _make_jsonable(cls, value: object) -> object:
        return replace_surrogates(to_jsonable(value)) if isinstance(value, Mapping) else value


class AgentFailureError(Exception):
    """An agent has no result. The agent makes a failed result of it; `details` are for whoever debugs."""

    def __init__(self, kind: str, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.kind = kind  # `AgentError.type`
        self.details = dict(details or {})


class TabularResult(BaseModel):
    """Table of JSON values; each row has every column. Immutable."""

    model_config = ConfigDict(frozen=True)

    columns: list[str]
    rows: list[dict[str, object]] = Field(default_factory=list)
    truncated: bool = False  # rows or values were cut off: `row_count` counts what is here

    @computed_field  # type: ignore[prop-decorator]
    @property
    def row_count(self) -> int:
        return len(self.rows)

    @field_validator("rows", mode="before")
    @classmethod
    def _make_cells(cls, value: object) -> object:
        if not isinstance(value, list | tuple):
            return value
        return [{str(k): to_cell(v) for k, v in row.items()} if isinstance(row, Mapping) else row for row in value]

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("columns have equal names; use TabularResult.from_lists, which renames them")
        expected = set(self.columns)
        for number, row in enumerate(self.rows, start=1):
            if set(row) != expected:
                raise ValueError(f"row {number} has the columns {sorted(row)}; expected {sorted(expected)}")
        return self

    @classmethod
    def from_lists(cls, columns: Sequence[str], rows: Iterable[Sequence[object]], truncated: bool = False) -> Self:
        """Return the table of a database's result; equal column names get a suffix, so that no value is lost.

        Raises:
            ValueError: a row has more or fewer values than there are columns.
        """
        names = make_unique(columns)
        return cls(columns=names, rows=[dict(zip(names, row, strict=True)) for row in rows], truncated=truncated)


def make_unique(columns: Sequence[str]) -> list[str]:
    """Return the names with a number after each that occurred before: id, id_2."""
    taken: set[str] = set()
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in taken or (number > 1 and name in columns):
            number += 1
            name = f"{column}_{number}"
        taken.add(name)
        names.append(name)
    return names


def to_cell(value: object) -> Cell:
    """Return a database's or a program's value as JSON can hold it: numbers stay numbers, dates are ISO 8601."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            return str(value)
        number = int(value) if value == value.to_integral_value() else float(value)
        return number if Decimal(str(number)) == value else str(value)  # never a rounded number
    if isinstance(value, bytes | bytearray | memoryview):
        return "0x" + bytes(value).hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [to_cell(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): to_cell(each) for key, each in value.items()}
    if isinstance(value, timedelta):
        return str(value)
    isoformat = getattr(value, "isoformat", None)
    cell: Cell = isoformat() if callable(isoformat) else replace_surrogates(to_jsonable(value))
    return cell


class AgentResult(BaseModel):
    """Findings of one agent, or the reason why it failed. Immutable."""

    model_config = ConfigDict(frozen=True)

    agent: AgentName
    status: AgentExecutionStatus
    answer: str | None = None
    tabular: TabularResult | None = None
    error: AgentError | None = None
    trace: list[TraceEvent] = Field(default_factory=list)
    latency_ms: float | None = None

    @model_validator(mode="after")
    def _check_error(self) -> Self:
        if self.status is _Status.FAILED and self.error is None:
            raise ValueError("a failed result needs its error")
        if self.status is _Status.SUCCEEDED and self.error is not None:
            raise ValueError("a result that succeeded has no error")
        return self


class Agent(Protocol):
    """Agent of the system, which may fail without ending the request; it keeps nothing from one to the next.

    Agents are made for each request from the program's predictors (`mas.systems.bos.agents`), so that a tuned copy of
    the program runs its own prompts.
    """

    async def invoke(self, question: str, *, context: Mapping[str, object]) -> AgentResult:
        """Answer the question, or return a failed result that says why.

        Args:
            question: of the request.
            context: of the request, with the temporal values. It may hold secrets: use `format_context` for prompts and
                `EventRecorder` for events. `get_text(context, SYSTEM_PROMPT)` and `get_text(context, EARLIER_RESULTS)`
                are extra inputs of every LLM step.

        Raises:
            LimitReachedError: a limit of the sample or the run was reached. Must not be caught.
        """
        ...
