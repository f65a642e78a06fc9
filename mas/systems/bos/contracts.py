"""Requests, trace events, results, decisions and responses of the system's parts; all are immutable.

The context of a request may hold tokens and passwords. They reach the agent that needs them and nothing else: a request
that is printed, stored or traced has `***` in their place, and prompts are made with `format_context`.
"""

import json
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    computed_field,
    field_serializer,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict  # pydantic reads typing's only from Python 3.12 on

from mas.runtime.sample_context import current_context
from mas.runtime.security.redaction import MASK, MIN_SECRET_CHARS, Redact, build_redactor
from mas.runtime.text import replace_surrogates, to_jsonable
from mas.runtime.untrusted import break_marks, enclose_data

# Keys of a context that the orchestrator writes for the agents.
SYSTEM_PROMPT = "system_prompt"  # the request's own, if it has one
EARLIER_RESULTS = "earlier_results"  # with `share_results`: text about what earlier agents found
_NOT_SHOWN = (SYSTEM_PROMPT, EARLIER_RESULTS)  # predictors have separate inputs for them
HEADERS = "api_headers"

_SECRET_KEY = re.compile(r"token|passw|secret|api_?key|authorization|cookie|credential|firebase_email", re.IGNORECASE)

Clock = Callable[[], datetime]  # in UTC


def read_clock() -> datetime:
    """Return the time; within a sample, which may be resumed, that of its beginning."""
    sample = current_context()
    return sample.read_start_time() if sample else datetime.now(UTC)


def split_secrets(context: Mapping[str, object]) -> tuple[dict[str, object], set[str]]:
    """Return a copy of the context with `***` in place of secrets and headers' values, and these."""
    masked, secrets = dict(context), set[str]()
    for key, value in context.items():
        if key == HEADERS and isinstance(value, Mapping):
            masked[key] = dict.fromkeys(map(str, value), MASK)
            for header in map(str, value.values()):
                secrets.update([header, *header.split()[1:]])  # "Bearer ey…": the token alone as well
        elif _SECRET_KEY.search(key) and value is not None:
            masked[key] = MASK
            secrets.add(str(value))
        elif isinstance(value, dict):
            masked[key], inner = split_secrets(value)
            secrets |= inner
    return masked, secrets


def make_redactor(context: Mapping[str, object]) -> Redact:
    """Return a function that replaces what no trace, error, answer or log may show of the context."""
    return build_redactor(tuple(sorted(text for text in split_secrets(context)[1] if len(text) >= MIN_SECRET_CHARS)))


def format_context(context: Mapping[str, object]) -> str:
    """Return the context as lines `key: value`, without secrets and what has its own input."""
    lines = []
    for key, value in split_secrets(context)[0].items():
        if key not in _NOT_SHOWN and value != MASK:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            lines.append(f"{key}: {text}")
    return "\n".join(lines)


def format_data(name: str, text: str) -> str:
    """Return, for a prompt, a text that `name` has returned: data, not instructions."""
    return "".join(enclose_data(name, break_marks(text)))


def get_text(context: Mapping[str, object], key: str) -> str | None:
    value = context.get(key)
    return value if isinstance(value, str) and value.strip() else None


AgentName = Literal["sql", "api_docs", "computation"]
AGENT_NAMES: tuple[AgentName, ...] = get_args(AgentName)
Component = AgentName | Literal["planner", "composer"]

REQUEST_SENT = "Executed HTTP request"  # message of the event of each request to an API


def _make_jsonable(value: object) -> object:
    return replace_surrogates(to_jsonable(value)) if isinstance(value, Mapping) else value


Details = Annotated[dict[str, object], BeforeValidator(_make_jsonable)]  # what JSON can hold


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


class AgentRequest(_Contract):
    """Question with its context and options."""

    question: str = Field(min_length=1, pattern=r"\S")
    context: dict[str, object] = Field(default_factory=dict)
    prefer_agents: tuple[AgentName, ...] = ()  # these come first, if they are candidates
    disable_agents: tuple[AgentName, ...] = ()
    max_turns: int | None = Field(default=None, ge=1)  # so many agents run; others are skipped
    include_data: bool = True  # False: no tables in the response
    trace: bool = False  # True: the response has the trace events
    system_prompt: str | None = None  # an extra input of every LLM step

    @field_validator("prefer_agents", "disable_agents", mode="before")
    @classmethod
    def _normalise_names(cls, value: object) -> object:
        names = [value] if isinstance(value, str) else value or ()
        if not isinstance(names, list | tuple):
            return value
        return tuple(name.strip().lower() if isinstance(name, str) else name for name in names if name is not None)

    @field_serializer("context")
    def _mask_context(self, context: dict[str, object]) -> dict[str, object]:
        return split_secrets(context)[0]

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        for name, value in super().__repr_args__():
            yield name, split_secrets(self.context)[0] if name == "context" else value

    @classmethod
    def parse(cls, request: "AgentRequest | Mapping[str, object] | str") -> Self:
        """Return the request in an object, a mapping or JSON; ValidationError: a field is wrong."""
        if isinstance(request, cls):
            return request
        return cls.model_validate_json(request) if isinstance(request, str) else cls.model_validate(request)


def attach_temporal_context(request: AgentRequest, clock: Clock = read_clock) -> AgentRequest:
    """Return a request whose context has the date and time; the same object if nothing is missing."""
    context = dict(request.context)
    now = clock()  # read once: two readings could be on two days
    context.setdefault("current_datetime_utc", now.isoformat())
    if "current_date" not in context:
        date = now.date().isoformat()
        context["current_date"] = date
        context.setdefault("current_date_start_hour", f"{date} 00")
        context.setdefault("current_date_end_hour", f"{date} 23")
    return request if context == request.context else request.model_copy(update={"context": context})


TraceEventType = Literal["MESSAGE", "TOOL", "DECISION", "RESULT", "ERROR"]


class TraceEvent(_Contract):
    """Event of one component."""

    event_type: TraceEventType
    agent: Component | None = None
    data: Details = Field(default_factory=dict)
    message: str | None = None
    timestamp: datetime = Field(default_factory=lambda: datetime.now(UTC))
    event_id: str = Field(default_factory=lambda: uuid.uuid4().hex)  # also on the span


class AgentExecutionStatus(StrEnum):
    """Status of an agent in one request."""

    pending = "pending"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    skipped = "skipped"

    def move_to(self, after: "AgentExecutionStatus") -> "AgentExecutionStatus":
        """Return the next status; ValueError: the transition is not allowed."""
        if after not in _TRANSITIONS.get(self, ()):
            raise ValueError(f"an agent cannot go from {self} to {after}")
        return after


_Status = AgentExecutionStatus
_TRANSITIONS = {
    _Status.pending: (_Status.running, _Status.skipped),
    _Status.running: (_Status.succeeded, _Status.failed, _Status.skipped),
}


class AgentError(_Contract):
    """Error of an agent. `details` are for debugging, never for the user's answer."""

    message: str
    type: str  # PlanningDeclined, QueryError, HttpError, HttpRequestError, PathResolutionError, SandboxViolation,
    # SandboxTimeout, ConfigurationError, TurnLimit, or the name of an exception's class
    details: Details = Field(default_factory=dict)


class AgentFailureError(Exception):
    """An agent has no result; it becomes the `AgentError` of a failed one."""

    def __init__(self, kind: str, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.kind = kind  # `AgentError.type`
        self.details = dict(details or {})


class TabularResult(_Contract):
    """Table of JSON values; each row has every column."""

    columns: list[str]
    rows: list[dict[str, object]] = Field(default_factory=list)
    truncated: bool = False  # rows were cut off: `row_count` counts those that are left

    @computed_field  # type: ignore[prop-decorator]
    @property
    def row_count(self) -> int:
        return len(self.rows)

    @classmethod
    def from_lists(cls, columns: Sequence[str], rows: Iterable[Sequence[object]], truncated: bool = False) -> Self:
        """Return a table; equal column names get a suffix. ValueError: a row of another length."""
        names: list[str] = []
        for column in columns:
            name, number = column, 1
            while name in names or (number > 1 and name in columns):
                number += 1
                name = f"{column}_{number}"
            names.append(name)
        cells = [dict(zip(names, map(to_cell, row), strict=True)) for row in rows]
        return cls(columns=names, rows=cells, truncated=truncated)


def to_cell(value: object) -> object:
    """Return a value as JSON can hold it: numbers stay numbers, dates are ISO 8601."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            return str(value)
        number = int(value) if value == value.to_integral_value() else float(value)
        return number if Decimal(str(number)) == value else str(value)  # never a rounded number
    if isinstance(value, bytes | bytearray | memoryview):
        return "0x" + bytes(value).hex()
    if isinstance(value, list | tuple):
        return [to_cell(element) for element in value]
    return str(value) if isinstance(value, timedelta | time) else replace_surrogates(to_jsonable(value))


class AgentResult(_Contract):
    """Findings of one agent, or the reason why it failed."""

    agent: AgentName
    status: AgentExecutionStatus
    answer: str | None = None
    tabular: TabularResult | None = None
    error: AgentError | None = None
    trace: list[TraceEvent] = Field(default_factory=list)
    latency_ms: float | None = None
    model_error: Exception | None = Field(default=None, exclude=True, repr=False)  # of the model

    @model_validator(mode="after")
    def _check_error(self) -> Self:
        if self.error is None if self.status is _Status.failed else self.error and self.has_succeeded:
            raise ValueError("a failed result needs its error, and one that succeeded has none")
        return self

    @property
    def has_succeeded(self) -> bool:
        return self.status is _Status.succeeded


class PlannerDecision(_Contract):
    """Agents to run, in order."""

    rationale: str
    chosen_agents: tuple[AgentName, ...] = ()
    confidence: float | None = None  # 0 to 1
    guardrails: dict[str, object] = Field(default_factory=dict)  # constraints applied, by name

    @field_validator("confidence", mode="before")
    @classmethod
    def _normalise(cls, value: object) -> float | None:
        """Return a number from 0 to 1: percentages divided by 100, others clamped; None: no number."""
        text = str(value).strip()
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            return None
        if text.endswith("%") or 1 < number <= 100:
            number /= 100
        return None if math.isnan(number) else min(max(number, 0.0), 1.0)


class OrchestratorResponse(_Contract):
    """Answer to a request, with everything that led to it."""

    answer: str
    data: TabularResult | None = None  # of the first agent that succeeded with a table
    agent_results: list[AgentResult] = Field(default_factory=list)  # failures included
    trace: list[TraceEvent] = Field(default_factory=list)  # only if the request asks for it
    planner: PlannerDecision | None = None
    metadata: dict[str, object] = Field(default_factory=dict)  # confidence, agents


class OrchestratorState(TypedDict, total=False):
    """State of the graph; a node returns only the fields that it changes, and lists as a whole."""

    request: AgentRequest  # with the temporal context after planning
    planner: PlannerDecision
    pending_agents: list[AgentName]
    agent_results: list[AgentResult]
    trace: list[TraceEvent]
    response: OrchestratorResponse
