"""Trace of one sample's run: a tree of spans, recorded while it happens.

Everything that a run later shows (the record's trajectory, the log lines, MLflow's trace) is made from this one stream.

    trace = Trace("7f3c…", listener=print)
    with record_trace(trace), span("tool", "calculator", inputs={"expression": "2+2"}) as current:
        current.outputs = {"result": "4"}
    trace.spans[0].seconds         # 0.0001…
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["question", "orchestrator", "agent", "lm", "tool", "scorer"]
Level = Literal["info", "warning", "error"]
Listener = Callable[[Level, str, dict[str, Any]], None]


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


Observer = Callable[[Span], None]  # called with a span when it opens (`end_seconds` is None) and when it ends


class Trace:
    """The spans of one question, the listener that turns them into log lines, and the observer that shows them live."""

    def __init__(self, thread_id: str, listener: Listener | None = None, observer: Observer | None = None) -> None:
        self.thread_id = thread_id  # the correlation id
        self.spans: list[Span] = []
        self.limit: str | None = None  # limit of the system itself that ended the work: "retry_limit:expert"
        self.state: dict[str, Any] = {}  # newest state of the system: a failed sample shows how far it came
        self.answer: str | None = None  # the answer if the sample ended now; None: none yet
        self._listener = listener
        self._observer = observer
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def is_within(self, span: Span, kind: Kind) -> bool:
        """Return True if the span, or one around it, is of that kind."""
        while span.kind != kind and span.parent is not None:
            span = self.spans[span.parent]
        return span.kind == kind

    def log(self, level: Level, event: str, **fields: object) -> None:
        if self._listener:
            self._listener(level, event, fields)

    def observe(self, span: Span) -> None:
        if self._observer:
            self._observer(span)


_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)
_span: ContextVar[Span | None] = ContextVar("span", default=None)


@contextmanager
def record_trace(trace: Trace) -> Iterator[Trace]:
    """Record every span opened in this context, and in tasks started from it, in `trace`."""
    trace_token, span_token = _trace.set(trace), _span.set(None)
    try:
        yield trace
    finally:
        _trace.reset(trace_token)
        _span.reset(span_token)


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
        trace.log("info", f"{kind} started", component=name)
        trace.observe(current)
    token = _span.set(current)
    try:
        yield current
    except BaseException as error:
        current.error = f"{type(error).__name__}: {error}"
        raise
    finally:
        _span.reset(token)
        if trace:
            current.end_seconds = trace.seconds
            _log_end(trace, current)
            trace.observe(current)


def _log_end(trace: Trace, ended: Span) -> None:
    fields = {"component": ended.name, "seconds": round(ended.seconds, 4), **ended.attributes}
    if ended.kind == "tool":
        fields |= {"arguments": ended.inputs, **ended.outputs}
    if ended.error:
        trace.log("error", f"{ended.kind} failed", error=ended.error, **fields)
    else:
        trace.log("info", f"{ended.kind} finished", **fields)


def current_thread_id() -> str | None:
    """Return the correlation id of the sample being recorded, if one is."""
    trace = _trace.get()
    return trace.thread_id if trace else None


def note_limit(limit: str) -> None:
    """Note that a limit of the system itself ended the work, such as `retry_limit:expert`."""
    trace = _trace.get()
    if trace is not None:
        trace.limit = limit


def keep_state(state: Mapping[str, object]) -> None:
    """Store the system's present state; a later one replaces it."""
    trace = _trace.get()
    if trace is not None:
        trace.state = dict(state)


def keep_answer(text: str) -> None:
    """Store the answer to use if a limit ends the sample now; a later one replaces it."""
    trace = _trace.get()
    if trace is not None:
        trace.answer = text


def event(name: str, level: Level = "info", **fields: object) -> None:
    """Note an event (a decision, a retry, a limit) on the span that is open now."""
    trace, current = _trace.get(), _span.get()
    if trace is None:
        return
    if current is not None:
        current.events.append({"name": name, "seconds": trace.seconds, "level": level, **fields})
    trace.log(level, name, **({"component": current.name} if current else {}) | fields)
