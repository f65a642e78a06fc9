"""Recorder of what a component does with a request, and the base of the agents, which use it."""

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from mas.runtime.errors import format_stack
from mas.runtime.safe_call import await_safely, run_in_thread
from mas.runtime.sample_context import LimitReachedError
from mas.runtime.security.redaction import build_redactor, redact_value
from mas.runtime.text import replace_surrogates
from mas.runtime.trace import event, span
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
    make_redactor,
)

if TYPE_CHECKING:
    import dspy


class EventRecorder:
    """Events of one component for one request, without the secrets of the request's context.

    Each event is also noted on the span that is open (`mas.runtime.trace`), with the same id, so that MLflow shows it.
    """

    def __init__(self, component: Component, context: Mapping[str, object] | None = None) -> None:
        self.events: list[TraceEvent] = []
        self.context = context or {}
        self._component = component
        self.redact = make_redactor(self.context)

    def hide(self, secret: str) -> None:
        """Hide one more secret, such as a new token, in all that is added or redacted from now on."""
        before, hide = self.redact, build_redactor((secret,))
        self.redact = lambda text: hide(before(text))

    def add(self, event_type: TraceEventType, message: str, /, **data: object) -> None:
        message, data = self.redact(replace_surrogates(message)), redact_value(data, self.redact)
        added = TraceEvent(event_type=event_type, agent=self._component, message=message, data=data)
        self.events.append(added)
        event(
            message,
            "warning" if event_type == "ERROR" else "info",
            event_id=added.event_id,
            event_type=event_type,
            component_name=self._component,
            data=added.data,
        )

    async def call(self, predictor: "dspy.Predict", **inputs: object) -> "dspy.Prediction":
        """Return a model's reply; the predictor also gets those values of the request that it takes."""
        of_request = {
            "context": format_context(self.context),
            "earlier_results": get_text(self.context, EARLIER_RESULTS) or "none",
            "system_prompt": get_text(self.context, SYSTEM_PROMPT),
        }
        taken = predictor.signature.input_fields
        return await predictor.acall(**inputs, **{name: of_request[name] for name in of_request if name in taken})

    async def ask(self, predictor: "dspy.Predict", field: str, problem: str, **inputs: object) -> str:
        """Return a field of a model's reply; empty if there is none, which is recorded as `problem`."""
        from dspy.utils.exceptions import AdapterParseError, LMError

        try:
            reply = await self.call(predictor, **inputs)
        except (LMError, AdapterParseError) as error:
            self.add("ERROR", problem, error=str(error), type=type(error).__name__)
            return ""
        return str(getattr(reply, field) or "").strip()

    def describe(self, error: Exception) -> AgentError:
        """Return the error of an agent that has no result, and add it as an event."""
        kind, details = type(error).__name__, dict[str, object]()
        if isinstance(error, AgentFailureError):
            kind, details = error.kind, error.details
        else:
            details["stack"] = format_stack(error)
        message = self.redact(str(error) or kind)
        self.add("ERROR", message, type=kind)
        return AgentError(message=message, type=kind, details=redact_value(details, self.redact))

    def change_status(self, before: AgentExecutionStatus, after: AgentExecutionStatus) -> AgentExecutionStatus:
        """Return the status after; ValueError: the transition is not allowed."""
        self.add("MESSAGE", f"Status changed from {before} to {after}", status=str(before.move_to(after)))
        return after


class RecordedAgent(ABC):
    """Base of the agents, which are made for each request from the program's own predictors.

    What one does is recorded, and an error becomes its result: its failure ends no request.
    """

    name: ClassVar[AgentName]

    async def invoke(self, question: str, *, context: Mapping[str, object]) -> AgentResult:
        """Answer the question, or return a failed result that says why.

        The context has the temporal values. It may hold secrets: prompts and events are made by the recorder.
        LimitReachedError: a limit of the sample or the run was reached. Must not be caught.
        """
        from dspy.utils.exceptions import AdapterParseError, LMError

        recorder, started, found = EventRecorder(self.name, context), time.perf_counter(), dict[str, Any]()
        with span("agent", self.name, inputs={"question": question}) as current:
            status = recorder.change_status(AgentExecutionStatus.pending, AgentExecutionStatus.running)
            try:
                answer, found["tabular"] = await self._answer_safely(question, recorder)
                found["answer"] = recorder.redact(answer)
                status = recorder.change_status(status, AgentExecutionStatus.succeeded)
            except LimitReachedError:
                raise
            except Exception as error:  # noqa: BLE001  # of an agent: becomes its result
                found = {"error": recorder.describe(error)}
                if isinstance(error, LMError | AdapterParseError):
                    found["model_error"] = error
                status = recorder.change_status(status, AgentExecutionStatus.failed)
            current.attributes["status"] = str(status)
            current.outputs = {"status": str(status), "answer": found.get("answer")}
            if failed := found.get("error"):
                current.outputs["error"] = {"type": failed.type, "message": failed.message}
        latency = (time.perf_counter() - started) * 1000
        return AgentResult(agent=self.name, status=status, trace=recorder.events, latency_ms=latency, **found)

    async def _answer_safely(self, question: str, recorder: EventRecorder) -> Any:
        """Await the answer; a function that blocks runs in a thread."""
        if inspect.iscoroutinefunction(self.answer):
            return await await_safely(self.answer(question, recorder), RuntimeError)
        return await run_in_thread(lambda: self.answer(question, recorder), RuntimeError)

    @abstractmethod
    async def answer(self, question: str, recorder: EventRecorder) -> tuple[str, TabularResult | None]:
        """Return the answer and its table; AgentFailureError: there is none."""
