"""Recorder of what a component does with a request, and the base of the three agents, which record what they do.

recorder = EventRecorder("sql", context)
recorder.add("TOOL", "Executed query", query="SELECT 1", row_count=1, latency_ms=2.5)
return recorder.succeed("One row.", table)
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar

from mas.runtime.security.redaction import build_redactor, redact_value
from mas.runtime.text import replace_surrogates
from mas.runtime.trace import Level, event
from mas.systems.bos.context import list_secrets
from mas.systems.bos.contracts import (
    AgentError,
    AgentExecutionStatus,
    AgentFailureError,
    AgentName,
    AgentResult,
    Component,
    TabularResult,
    TraceEvent,
    TraceEventType,
)

if TYPE_CHECKING:
    import dspy

_recorders: ContextVar[list["EventRecorder"] | None] = ContextVar("recorders", default=None)


@contextmanager
def note_recorders() -> Iterator[list["EventRecorder"]]:
    """Note the recorders made inside the block: if an agent raises, what it has done until then is in its own."""
    noted: list[EventRecorder] = []
    token = _recorders.set(noted)
    try:
        yield noted
    finally:
        _recorders.reset(token)


class EventRecorder:
    """Events of one component while it works on one request, without the secrets of the request's context.

    Each event is also noted on the span that is open (`mas.runtime.trace`), with the same id, so that MLflow shows it.
    """

    def __init__(self, component: Component, context: Mapping[str, object] | None = None) -> None:
        self.events: list[TraceEvent] = []
        self._component = component
        self.redact = build_redactor(list_secrets(context or {}))
        if (noted := _recorders.get()) is not None:
            noted.append(self)

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

    async def ask(self, predictor: "dspy.Predict", field: str, problem: str, **inputs: object) -> str:
        """Return a field of a model's reply as text; empty if the model gives none, which is recorded as `problem`."""
        from dspy.utils.exceptions import AdapterParseError, LMError

        try:
            reply = await predictor.acall(**inputs)
        except (LMError, AdapterParseError) as error:
            self.add("ERROR", problem, error=str(error), type=type(error).__name__)
            return ""
        return str(getattr(reply, field) or "").strip()

    def succeed(self, answer: str, table: TabularResult | None = None) -> AgentResult:
        """Return the result of an agent that has an answer."""
        return self._finish(AgentExecutionStatus.succeeded, answer=self.redact(answer), tabular=table)

    def fail(self, kind: str, message: str, details: Mapping[str, object] | None = None) -> AgentResult:
        """Return the result of an agent that has none, with the error as its last event."""
        error = AgentError(message=self.redact(message), type=kind, details=redact_value(details or {}, self.redact))
        self.add("ERROR", error.message, type=kind)
        return self._finish(AgentExecutionStatus.failed, error=error)

    def _finish(self, status: AgentExecutionStatus, **fields: object) -> AgentResult:
        return AgentResult.model_validate({"agent": self._component, "status": status, "trace": self.events, **fields})


class RecordedAgent(ABC):
    """Base of the three agents: what each does is recorded, and a failure that it expects is its result."""

    name: ClassVar[AgentName]

    async def invoke(self, question: str, *, context: Mapping[str, object]) -> AgentResult:
        """Answer the question, or return why there is no answer.

        Raises:
            LMError: the model could not be asked.
            AdapterParseError: a reply could not be read.
            LimitReachedError: a limit of the sample or the run was reached.
        """
        recorder = EventRecorder(self.name, context)
        try:
            answer, table = await self.answer(question, context, recorder)
            return recorder.succeed(answer, table)
        except AgentFailureError as failure:
            return recorder.fail(failure.kind, str(failure), failure.details)

    @abstractmethod
    async def answer(
        self, question: str, context: Mapping[str, object], recorder: EventRecorder
    ) -> tuple[str, TabularResult | None]:
        """Return the answer and its table.

        Raises:
            AgentFailureError: there is none.
        """
