"""Trace events of a request, and the recorder that collects those of one component.

    recorder = EventRecorder("sql", context)
    recorder.add("TOOL", "Executed query", query="SELECT 1", row_count=1, latency_ms=2.5)
    AgentResult(agent="sql", …, trace=recorder.events)

Each event is also noted on the span that is open (`mas.runtime.trace`), with the same id, so that MLflow shows it.
"""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mas.runtime.security.redaction import build_redactor, redact_value
from mas.runtime.text import replace_surrogates, to_jsonable
from mas.runtime.trace import Level, event
from mas.systems.bos.contracts.request import AgentName, list_secrets

Component = AgentName | Literal["planner", "composer"]

REQUEST_SENT = "Executed HTTP request"  # message of the event of each request to an API


class TraceEventType(StrEnum):
    """Kind of an event."""

    MESSAGE = "MESSAGE"  # a retry, a token refresh, a change of status
    TOOL = "TOOL"  # a query, an HTTP request, an execution of code
    DECISION = "DECISION"  # of the planner or an agent
    RESULT = "RESULT"
    ERROR = "ERROR"


class TraceEvent(BaseModel):
    """Event of one component. Immutable."""

    model_config = ConfigDict(frozen=True)

    event_type: TraceEventType
    agent: Component | None = None
    data: dict[str, object] = Field(default_factory=dict)
    message: str | None = None
    timestamp: datetime = Field(default_factory=lambda: datetime.now(UTC))
    event_id: str = Field(default_factory=lambda: uuid.uuid4().hex)  # also on the span

    @field_validator("data", mode="before")
    @classmethod
    def _make_jsonable(cls, value: object) -> object:
        return replace_surrogates(to_jsonable(value)) if isinstance(value, Mapping) else value


class EventRecorder:
    """Events of one component while it works on one request, without the secrets of the request's context."""

    def __init__(self, component: Component, context: Mapping[str, object] | None = None) -> None:
        self.events: list[TraceEvent] = []
        self._component = component
        self.redact = build_redactor(list_secrets(context or {}))

    def hide(self, secret: str) -> None:
        """Hide one more secret, such as a new token, in all that is added or redacted from now on."""
        before, hide = self.redact, build_redactor((secret,))
        self.redact = lambda text: hide(before(text))

    def add(self, event_type: TraceEventType | str, message: str, /, **data: object) -> TraceEvent:
        """Add an event, and note it on the open span."""
        added = TraceEvent(
            event_type=TraceEventType(event_type),
            agent=self._component,
            message=self.redact(replace_surrogates(message)),
            data=redact_value(data, self.redact),
        )
        self.events.append(added)
        level: Level = "warning" if added.event_type is TraceEventType.ERROR else "info"
        event(
            added.message or "",
            level,
            event_id=added.event_id,
            event_type=str(added.event_type),
            component_name=self._component,
            data=added.data,
        )
        return added
