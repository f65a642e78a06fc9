"""Trace of one sample's run: a tree of spans, recorded while it happens.

Everything that a run later shows (the record's trajectory, the log lines, MLflow's trace) is made from this one stream.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from mas.runtime.errors import format_stack

Kind = Literal["question", "orchestrator", "agent", "lm", "tool", "scorer"]
Level = Literal["info", "warning", "error"]
Listener = Callable[[Level, str, dict[str, Any]], None]

NEARLY_RIGHT = "reply not in the form asked for"
CALL_IN_TEXT = "tool call read from text"
SCHEMA_REFUSED = "the server refused a schema for the reply"
MISSHAPEN = (NEARLY_RIGHT, CALL_IN_TEXT)  # events of replies that could be read all the same
_LOGGED = "_mas_stack_was_logged"  # attribute of an exception


@dataclass
class Span:
    """A stretch of work. Times are seconds since the question began (monotonic clock)."""

    id: int  # order of opening within the trace
    parent: int | None
    kind: Kind
    name: str
    start_seconds: float
    end_seconds: float | None = None  # None: still open, or cut off
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)  # {"name", "seconds", "level", …}
    error: str | None = None  # "Type: message" of the exception that ended it

    @property
    def seconds(self) -> float:
        return 0.0 if self.end_seconds is None else self.end_seconds - self.start_seconds


Observer = Callable[[Span], None]  # called with a span when it opens and when it ends


@dataclass(eq=False)
class Trace:
    """The spans of one question, a listener that writes log lines, an observer that shows them live."""

    thread_id: str  # the correlation id
    listener: Listener | None = None
    observer: Observer | None = None
    spans: list[Span] = field(default_factory=list, init=False)
    limit: str | None = field(default=None, init=False)  # of the system itself: "retry_limit:expert"
    state: dict[str, Any] = field(default_factory=dict, init=False)  # newest: a failed sample shows it
    answer: str | None = field(default=None, init=False)  # if the sample ended now; None: none yet
    failure: tuple[BaseException, str] | None = field(default=None, init=False)  # and its agent
    step: str | None = field(default=None, init=False)  # of the workflow
    retry_counts: dict[str, int] = field(default_factory=dict, init=False)  # by agent, until it is approved
    _started: float = field(default_factory=time.monotonic, init=False)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def find_span(self, span: Span | None, kind: Kind) -> Span | None:
        """Return the span itself, or the nearest one above it, of the kind; None: there is none."""
        while span is not None and span.kind != kind:
            span = None if span.parent is None else self.spans[span.parent]
        return span

    def log(self, level: Level, event: str, span: Span | None, /, **fields: object) -> None:
        """Pass an event on to the listener, with the step and the agent that it belongs to."""
        if self.listener:
            component = span and span.kind != "question" and span.name
            agent = self.find_span(span, "agent")
            place = {"component": component, "agent": agent and agent.name, "step": self.step}
            self.listener(level, event, {name: value for name, value in place.items() if value} | fields)

    def observe(self, span: Span) -> None:
        if self.observer:
            self.observer(span)


_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)
_span: ContextVar[Span | None] = ContextVar("span", default=None)


@contextmanager
def record_trace(trace: Trace) -> Iterator[Trace]:
    """Record every span opened in this context, and in tasks started from it, in `trace`."""
    token = _trace.set(trace)
    try:
        with use_span(None):
            yield trace
    finally:
        _trace.reset(token)


@contextmanager
def use_span(parent: Span | None) -> Iterator[None]:
    """Put the spans opened inside the block below `parent`, also if it has ended."""
    token = _span.set(parent)
    try:
        yield
    finally:
        _span.reset(token)


@contextmanager
def span(kind: Kind, name: str, inputs: Mapping[str, object] | None = None, **attributes: object) -> Iterator[Span]:
    """Record the work done inside the block; an exception is noted on the span and passes on.

    Outside `record_trace` the span belongs to no trace.
    """
    trace, parent = _trace.get(), _span.get()
    current = Span(
        id=len(trace.spans) if trace else 0,
        parent=parent.id if parent else None,
        kind=kind,
        name=name,
        start_seconds=trace.seconds if trace else 0.0,
        inputs=dict(inputs or {}),
        attributes=attributes,
    )
    if trace:
        trace.spans.append(current)
        trace.log("info", f"{kind} started", current, **({"arguments": current.inputs} if kind == "tool" else {}))
        trace.observe(current)
    failure = None
    try:
        with use_span(current):
            yield current
    except BaseException as error:
        current.error, failure = f"{type(error).__name__}: {error}", error
        raise
    finally:
        if trace:
            current.end_seconds = trace.seconds
            _log_end(trace, current, failure)
            trace.observe(current)
        failure = None  # it holds this frame, which holds it


def _log_end(trace: Trace, ended: Span, failure: BaseException | None) -> None:
    fields: dict[str, object] = {"seconds": round(ended.seconds, 4), **ended.attributes}
    if ended.kind == "tool":
        fields |= {"arguments": ended.inputs, **ended.outputs}
    if failure is None:
        trace.log("info", f"{ended.kind} finished", ended, **fields)
        return
    fields |= {"error": ended.error, "error_type": type(failure).__name__}
    fields |= {"retry_counts": trace.retry_counts} if trace.retry_counts else {}
    if _LOGGED not in vars(failure):  # its stack only once, while it passes through the spans
        vars(failure)[_LOGGED] = True
        fields["stack"] = format_stack(failure)
    trace.log("error", f"{ended.kind} failed", ended, **fields)


def current_trace() -> Trace:
    """Return the trace being recorded, or an unused one: systems note there how far they have come."""
    return _trace.get() or Trace("")


def event(name: str, level: Level = "info", **fields: object) -> None:
    """Note an event (a decision, a retry, a limit) on the span that is open now."""
    trace, current = _trace.get(), _span.get()
    if trace is None:
        return
    if current is not None:
        current.events.append({"name": name, "seconds": trace.seconds, "level": level, **fields})
    trace.log(level, name, current, **fields)
