"""Recorder of what a component does with a request, and the base of the three agents, which record what they do."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from mas.runtime.sample_context import LimitReachedError
from mas.runtime.security.redaction import build_redactor, redact_value
from mas.runtime.stack_trace import format_stack
from mas.runtime.text import replace_surrogates
from mas.runtime.trace import event
from mas.systems.bos.contracts import (
    EARLIER_RESULTS,
    SYSTEM_PROMPT,
    AgentError,
    AgentExecutionStatus,
    AgentFailureError,
    AgentName,
    AgentResult,
    Component,
    TabularResult,
    TraceEvent,
    TraceEventType,
    format_context,
    get_text,
    list_secrets,
)

if TYPE_CHECKING:
    import dspy


class EventRecorder:
    """Events of one component while it works on one request, without the secrets of the request's context.

    Each event is also noted on the span that is open (`mas.runtime.trace`), with the same id, so that MLflow shows it.
    """

    def __init__(self, component: Component, context: Mapping[str, object] | None = None) -> None:
        self.events: list[TraceEvent] = []
        self.context = context or {}
        self._component = component
        self.redact = build_redactor(list_secrets(self.context))

    def hide(self, secret: str) -> None:
        """Hide one more secret, such as a new token, in all that is added or redacted from now on."""
        before, hide = self.redact, build_redactor((secret,))
        self.redact = lambda text: hide(before(text))

    def add(self, event_type: TraceEventType | str, message: str, /, **data: object) -> TraceEvent:
        message, data = self.redact(replace_surrogates(message)), redact_value(data, self.redact)
        added = TraceEvent(event_type=TraceEventType(event_type), agent=self._component, message=message, data=data)
        self.events.append(added)
        event(
            message,
            "warning" if added.event_type is TraceEventType.ERROR else "info",
            event_id=added.event_id,
            event_type=str(added.event_type),
            component_name=self._component,
            data=added.data,
        )
        return added

    async def call(self, predictor: "dspy.Predict", **inputs: object) -> "dspy.Prediction":
        """Return a model's reply; values of the request that the predictor takes are added to its inputs."""
        of_request = {
            "context": format_context(self.context),
            "earlier_results": get_text(self.context, EARLIER_RESULTS) or "none",
            "system_prompt": get_text(self.context, SYSTEM_PROMPT),
        }
        taken = predictor.signature.input_fields
        return await predictor.acall(**inputs, **{name: of_request[name] for name in of_request if name in taken})

    async def ask(self, predictor: "dspy.Predict", field: str, problem: str, **inputs: object) -> str:
        """Return a field of a model's reply as text; empty if the model gives none, which is recorded as `problem`."""
        from dspy.utils.exceptions import AdapterParseError, LMError

        try:
            reply = await self.call(predictor, **inputs)
        except (LMError, AdapterParseError) as error:
            self.add("ERROR", problem, error=str(error), type=type(error).__name__)
            return ""
        return str(getattr(reply, field) or "").strip()

    def succeed(self, answer: str, table: TabularResult | None = None) -> AgentResult:
        return self._finish(AgentExecutionStatus.succeeded, answer=self.redact(answer), tabular=table)

    def fail(self, kind: str, message: str, details: Mapping[str, object] | None = None) -> AgentResult:
        """Return the result of an agent that has none, with the error as its last event."""
        error = AgentError(message=self.redact(message), type=kind, details=redact_value(details or {}, self.redact))
        self.add("ERROR", error.message, type=kind)
        return self._finish(AgentExecutionStatus.failed, error=error)

    def fail_with(self, error: Exception) -> AgentResult:
        from dspy.utils.exceptions import AdapterParseError, LMError

        kind = type(error).__name__
        result = self.fail(kind, str(error) or kind, {"stack": format_stack(error)})
        if isinstance(error, LMError | AdapterParseError):
            result._model_error = error
        return result

    def _finish(self, status: AgentExecutionStatus, **fields: object) -> AgentResult:
        return AgentResult.model_validate({"agent": self._component, "status": status, "trace": self.events, **fields})


class RecordedAgent(ABC):
    """Base of the three agents: what each does is recorded, and an error becomes its result."""

    name: ClassVar[AgentName]

    async def invoke(self, question: str, *, context: Mapping[str, object]) -> AgentResult:
        recorder = EventRecorder(self.name, context)
        try:
            return recorder.succeed(*await self.answer(question, recorder))
        except AgentFailureError as failure:
            return recorder.fail(failure.kind, str(failure), failure.details)
        except LimitReachedError:
            raise
        except Exception as error:  # noqa: BLE001  # of an agent: becomes its result, with what it did until then
            return recorder.fail_with(error)

    @abstractmethod
    async def answer(self, question: str, recorder: EventRecorder) -> tuple[str, TabularResult | None]:
        """Return the answer and its table; AgentFailureError: there is none."""
