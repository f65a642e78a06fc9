"""A record as a trace of MLflow: one span per step, with the conversation of each call to a model.

    trace = build_trace(record, experiment_id="1", run_id="0f3a…")
    trace.info, trace.data.spans       # for TracingClient.start_trace and log_spans

MLflow's page shows a conversation only in the form of OpenAI's chat completions, with a `content` that is a text, and
with texts for id, name and arguments of a tool call. Records hold requests and replies as DSPy does: messages made of
parts, the system prompt apart.

    to_chat_request({"system": "Be brief.", "messages": [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}]})
    # {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mlflow.entities import Span, Trace, TraceData, TraceInfo, TraceState
from mlflow.entities.trace_location import TraceLocation
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from eval.mlflow_export.assessments import build_assessments
from eval.mlflow_export.values import (
    ROOT,
    clean_text,
    derive_span_id,
    derive_trace_id,
    get_record_key,
    to_json_text,
    to_storable,
    truncate,
)
from eval.runs.record import Record
from mas.runtime.trace import Span as Step

JsonObject = dict[str, Any]
Message = Mapping[str, Any]  # {"role": …, "parts": […]}, whose parts are as DSPy has them: {"type": "text", "text": …}

PREVIEW_CHARS = 1000  # the width of MLflow's column; pages pair the rows of two runs by the whole text
_SPAN_TYPES = {
    "question": "CHAIN",
    "orchestrator": "CHAIN",
    "agent": "AGENT",
    "lm": "CHAT_MODEL",
    "tool": "TOOL",
    "scorer": "EVALUATOR",
}
_OF_RECORD = (  # its fields that are tags
    *("run_id", "level", "epoch", "attempt", "thread_id", "file", "score", "error_class", "error_component", "limit"),
)
_OF_USAGE = ("lm_calls", "retries", "tool_calls")
_IN_OTHER_FIELDS = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd", "model")
_RESOURCE = Resource({})
_FLAGS = TraceFlags(TraceFlags.SAMPLED)


def to_chat_request(inputs: JsonObject) -> JsonObject:
    """Convert a span's inputs; what is neither message nor tool (temperature and the like) stays as it is."""
    rest = dict(inputs)
    system, messages, tools = rest.pop("system", None), rest.pop("messages", None), rest.pop("tools", None)
    first = [{"role": "system", "content": _content(system)}] if system else []
    rest["messages"] = [*first, *(each for message in messages or [] for each in _messages(message))]
    return {**rest, "tools": [_tool(tool) for tool in tools]} if tools else rest


def to_chat_reply(outputs: JsonObject, finish_reason: object) -> JsonObject:
    """Convert a span's outputs; empty if there was no reply."""
    if "parts" not in outputs:
        return dict(outputs)
    message = next(iter(_messages(outputs)), {"role": "assistant", "content": ""})
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


def _messages(message: Message) -> Iterable[JsonObject]:
    """Convert one message; each tool result in it becomes a message of its own, as in OpenAI's form."""
    role = str(message.get("role", "user"))
    role = "system" if role == "developer" else role
    if "parts" not in message:
        yield {"role": role, "content": _content(message.get("content"))}
        return
    said, thoughts, calls = list[object](), list[object](), list[JsonObject]()
    for part in message["parts"]:
        kind = part.get("type")
        if kind == "tool_result":
            yield {"role": "tool", "tool_call_id": str(part.get("id", "")), "content": _content(part.get("content"))}
        elif kind == "tool_call":
            calls.append(_call(part))
        else:
            (thoughts if kind == "thinking" else said).append(part)
    if said or calls or thoughts:
        more = {"reasoning_content": _content(thoughts), "tool_calls": calls}
        yield {"role": role, "content": _content(said), **{name: value for name, value in more.items() if value}}


def _content(value: object) -> str:
    """Convert parts to one text; a picture or sound becomes a short description."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Sequence):
        return "\n".join(_content(part) for part in value)
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return str(value["text"])
    if isinstance(value, Mapping) and "media_type" in value:
        where = value.get("data") or value.get("url") or value.get("path") or ""
        return f"[{value.get('type')} {value['media_type']}: {str(where)[:200]}]"
    return json.dumps(value, ensure_ascii=False, default=str)


def _call(part: Mapping[str, Any]) -> JsonObject:
    given = part.get("input")
    arguments = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False, default=str)
    function = {"name": str(part.get("name", "")), "arguments": arguments}
    return {"id": str(part.get("id", "")), "type": "function", "function": function}


def _tool(tool: JsonObject) -> JsonObject:
    if tool.get("type") != "function":
        return dict(tool)
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


def build_trace(record: Record, experiment_id: str, run_id: str) -> Trace:
    """Build the trace of one sample, epoch and attempt, with its assessments; `run_id` is MLflow's id of the run."""
    trace_id, usage = derive_trace_id(get_record_key(record)), record.usage
    # Nanoseconds since 1970, exact to the microsecond that `started_at` has.
    start_ns = round(datetime.fromisoformat(record.started_at).timestamp() * 1_000_000) * 1000
    response = f"error: {record.error}" if record.error else ""
    info = TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=start_ns // 1_000_000,
        execution_duration=round(record.wall_seconds * 1000),
        state=TraceState.ERROR if record.error else TraceState.OK,
        request_preview=format_request_preview(record),
        response_preview=truncate(response if record.answer is None else record.answer, PREVIEW_CHARS),
        client_request_id=truncate(record.thread_id, 50) or None,
        trace_metadata={  # usage is the program's own, as in the run's table; a judge's calls are on its spans
            "mlflow.sourceRun": run_id,
            "mlflow.trace_schema.version": "3",
            "mlflow.trace.tokenUsage": json.dumps(_tokens(vars(usage))),
            "mlflow.trace.cost": json.dumps(_cost(usage.cost_usd)),
        },
        tags=_tags(record),
        assessments=list(build_assessments(record, run_id, start_ns)),
    )
    builder = _SpanBuilder(record, trace_id, start_ns)
    return Trace(info, TraceData([Span(builder.build(step)) for step in list_shown_steps(record)]))


def format_request_preview(record: Record) -> str:
    """Return the question with its id, epoch and attempt: MLflow pairs the rows of two runs by this text.

    The id comes last, because lists show the beginning; a long question is cut, so that equal ones still differ by id.
    """
    epoch = f" · epoch {record.epoch}" if record.epoch > 1 else ""
    attempt = f" · attempt {record.attempt}" if record.attempt > 1 else ""
    end = truncate(f" · {record.sample_id}{epoch}{attempt}", PREVIEW_CHARS // 2)
    return truncate(record.question, PREVIEW_CHARS - len(end)) + end


def _tags(record: Record) -> dict[str, str]:
    found = {
        "mlflow.traceName": record.sample_id,
        "harness.question_id": record.sample_id,
        **{f"harness.{name}": getattr(record, name) for name in _OF_RECORD},
        **{f"harness.{name}": getattr(record.usage, name) for name in _OF_USAGE},
        "harness.leaks": len(record.leaks) or None,
        "harness.blocked_pages": sum(record.blocked_pages.values()) or None,
        "harness.cost_usd": "n/a" if record.usage.cost_usd is None else record.usage.cost_usd,
    }
    return {name: truncate(str(value), 500) for name, value in found.items() if value is not None and value != ""}


def list_shown_steps(record: Record) -> list[Step]:
    """Return the record's steps without those of an orchestrator that hold nothing but events.

    These go to the step around it: a page with a row for each decision between two agents hides the agents.
    """
    steps = [Step(**each) for each in record.trajectory] or [Step(ROOT, None, "question", "question", 0.0)]
    parents = {step.parent for step in steps}
    empty = {
        step.id: step.parent or ROOT
        for step in steps
        if step.kind == "orchestrator" and not (step.inputs or step.outputs or step.error or step.id in parents)
        if step.id != ROOT
    }
    shown = {step.id: replace(step, events=[]) for step in steps if step.id not in empty}
    for step in steps:
        shown[empty.get(step.id, step.id)].events.extend(step.events)
    return list(shown.values())


class _SpanBuilder:
    """Converts steps of a record's trajectory to spans."""

    def __init__(self, record: Record, trace_id: str, start_ns: int) -> None:
        self.record, self.trace_id, self.start_ns = record, trace_id, start_ns
        self.key = get_record_key(record)

    def build(self, step: Step) -> ReadableSpan:
        is_root = step.id == ROOT
        parent = None if is_root else step.parent or ROOT  # a scorer's span begins after the question's has ended
        error = step.error or (self.record.error if is_root else None)
        end = max(self.record.wall_seconds, step.start_seconds) if step.end_seconds is None else step.end_seconds
        name = _split_model(step)[1] if step.kind == "lm" else step.name
        return ReadableSpan(
            name="question" if step.kind == "question" else truncate(name, 250),
            context=self._context(step.id),
            parent=None if parent is None else self._context(parent),
            resource=_RESOURCE,
            attributes=self._attributes(step),
            events=list(self._events(step, error, end)),
            status=Status(StatusCode.ERROR, clean_text(error)) if error else Status(StatusCode.OK),
            start_time=self._ns(step.start_seconds),
            end_time=self._ns(end),
        )

    def _context(self, number: int) -> SpanContext:
        trace, span = int(self.trace_id[3:], 16), int(derive_span_id(self.key, number), 16)
        return SpanContext(trace, span, is_remote=False, trace_flags=_FLAGS)

    def _ns(self, seconds: float) -> int:
        return self.start_ns + round(seconds * 1e9)

    def _attributes(self, step: Step) -> dict[str, str]:
        inputs, outputs, own, record = step.inputs, step.outputs, step.attributes, self.record
        found: JsonObject = {
            "mlflow.traceRequestId": self.trace_id,
            "mlflow.spanType": _SPAN_TYPES.get(step.kind, "UNKNOWN"),
        }
        if step.id == ROOT:
            inputs = {"question": record.question, **({"file": record.file} if record.file else {})}
            outputs = {"answer": record.answer, "reasoning_trace": record.reasoning_trace}
        elif step.kind == "lm":
            inputs, outputs = to_chat_request(inputs), to_chat_reply(outputs, own.get("finish_reason"))
            found |= _model_attributes(step)
        if inputs:
            found["mlflow.spanInputs"] = inputs
        if outputs:
            found["mlflow.spanOutputs"] = outputs
        if step.end_seconds is None:
            found["cut_off"] = True
        rest = {name: value for name, value in own.items() if value is not None and name not in _IN_OTHER_FIELDS}
        return {name: to_json_text(value) for name, value in (found | rest).items()}

    def _events(self, step: Step, error: str | None, end: float) -> Iterator[Event]:
        if step.attributes.get("retry"):
            yield self._event("retry", step.start_seconds, {"attempt": step.attributes.get("attempt")})
        for event in step.events:
            rest = {name: value for name, value in event.items() if name not in ("name", "seconds")}
            yield self._event(str(event.get("name", "event")), event.get("seconds", step.start_seconds), rest)
        if step.id == ROOT and self.record.limit:
            yield self._event("limit reached", end, {"limit": self.record.limit})
        if error:  # a span's is "Type: message", a record's a sentence
            kind, _, message = (step.error or "").partition(": ")
            if not message:
                kind, message = self.record.error_class or "error", error
            yield self._event("exception", end, {"exception.type": kind, "exception.message": message})

    def _event(self, name: str, seconds: float, fields: Mapping[str, object]) -> Event:
        """Build an event. OpenTelemetry takes plain values only; what has a structure becomes JSON."""
        plain = {
            clean_text(str(key)): to_json_text(value) if isinstance(value, dict | list) else to_storable(value)
            for key, value in fields.items()
            if value is not None
        }
        return Event(truncate(name, 250), plain, self._ns(seconds))  # type: ignore[arg-type]  # plain by now


def _split_model(step: Step) -> tuple[str, str]:
    """Return provider ("" if none is named) and model of `provider/model`."""
    provider, _, model = str(step.attributes.get("model") or step.name).partition("/")
    return (provider, model) if model else ("", provider)


def _model_attributes(step: Step) -> JsonObject:
    """Describe a call to a model. MLflow prices a span without a cost itself, so an unknown cost is 0, and marked."""
    provider, model = _split_model(step)
    cost_usd = step.attributes.get("cost_usd")
    found: JsonObject = {
        "mlflow.message.format": "openai",
        "mlflow.llm.model": model,
        "mlflow.llm.cost": _cost(cost_usd),
    }
    if provider:
        found["mlflow.llm.provider"] = provider
    if "input_tokens" in step.attributes:
        found["mlflow.chat.tokenUsage"] = _tokens(step.attributes)
    if cost_usd is None:
        found["cost_unknown"] = True
    return found


def _tokens(counts: JsonObject) -> dict[str, int]:
    sent, received = counts.get("input_tokens") or 0, counts.get("output_tokens") or 0
    found = {"input_tokens": sent, "output_tokens": received, "total_tokens": sent + received}
    cached = counts.get("cached_input_tokens") or 0
    return found | ({"cache_read_input_tokens": cached} if cached else {})


def _cost(cost_usd: float | None) -> dict[str, float]:
    """Return the cost in US dollars. Records know a call's whole cost, not how it divides."""
    return {"input_cost": 0.0, "output_cost": 0.0, "total_cost": float(cost_usd or 0.0)}
