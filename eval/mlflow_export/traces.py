"""A record as a trace of MLflow: one span per step, with the conversation of each call to a model.

    trace = build_trace(record, experiment_id="1", run_id="0f3a…")
    trace.info, trace.data.spans       # for TracingClient.start_trace and log_spans

MLflow's page shows a conversation only in the form of OpenAI's chat completions, with texts for content. Records
hold it as DSPy does: messages made of parts, the system prompt apart. Ids are derived from run, sample, epoch and
attempt of a record: sending it again meets the same rows.
"""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mlflow.entities import Assessment, AssessmentSource, Expectation, Feedback, Span, Trace, TraceData, TraceInfo
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from eval.execution.scoring import EXTRA
from eval.mlflow_export.tracked_run import clean_text, truncate
from eval.runs.record import Record
from eval.scorers.score import read_value
from mas.runtime.trace import Span as Step

JsonObject = dict[str, Any]
Message = Mapping[str, Any]  # {"role": …, "parts": […]}, whose parts are as DSPy has them: {"type": "text", "text": …}

ROOT = 0  # the question's own span in a trajectory
PREVIEW_CHARS = 1000  # the width of MLflow's column; pages pair the rows of two runs by the whole text
_SPAN_TYPES = {"agent": "AGENT", "lm": "CHAT_MODEL", "tool": "TOOL", "scorer": "EVALUATOR"}  # of others: CHAIN
_OF_RECORD = (  # its fields that are tags
    *("run_id", "level", "epoch", "attempt", "thread_id", "file", "score", "error_class", "error_component", "limit"),
)
_OF_USAGE = ("lm_calls", "retries", "tool_calls")
_IN_OTHER_FIELDS = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd", "model")
GOLD, CORRECT, ERROR_CLASS = "expected_response", "correct", "error_class"
FORMAT_LOSS, FORMAT_OK = "format_loss", "format_ok"  # a part, and what MLflow shows: its pages paint False red
_PICTURE_PARTS = ("image", "image_url", "input_image")  # types of parts of a message
_RESOURCE = Resource({})
_FLAGS = TraceFlags(TraceFlags.SAMPLED)


def derive_trace_id(record: Record) -> str:
    return f"tr-{_digest(record)[:32]}"


def derive_span_id(record: Record, number: int) -> str:
    """Return 16 hex digits; `number` is the span's id in the record's trajectory."""
    return _digest(record, "span", number)[:16]


def derive_assessment_id(record: Record, name: str) -> str:
    return f"a-{_digest(record, 'assessment', name)[:32]}"


def _digest(record: Record, *parts: object) -> str:
    key = (record.run_id, record.sample_id, record.epoch, record.attempt, *parts)
    return hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()


def to_chat_request(inputs: JsonObject) -> JsonObject:
    """Convert a span's inputs; what is neither message nor tool (temperature and the like) stays as it is."""
    rest = dict(inputs)
    system, messages, tools = (rest.pop(name, None) for name in ("system", "messages", "tools"))
    first = [{"role": "system", "content": _content(system)}] if system else []
    rest["messages"] = [*first, *(each for message in messages or [] for each in _messages(message))]
    return {**rest, "tools": list(map(_tool, tools))} if tools else rest


def to_chat_reply(outputs: JsonObject, finish_reason: object) -> JsonObject:
    """Convert a span's outputs; empty if there was no reply."""
    if "parts" not in outputs:
        return dict(outputs)
    message = next(_messages(outputs), {"role": "assistant", "content": ""})
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


def _messages(message: Message) -> Iterator[JsonObject]:
    """Convert one message; each tool result in it becomes a message of its own, as in OpenAI's form."""
    role = str(message.get("role", "user")).replace("developer", "system")
    if "parts" not in message:
        yield {"role": role, "content": _content(message.get("content"))}
        return
    parts: defaultdict[str, list[Any]] = defaultdict(list)
    for part in message["parts"]:
        kind = part.get("type")
        parts[kind if kind in ("tool_result", "tool_call", "thinking") else "said"].append(part)
    for part in parts.pop("tool_result", ()):
        yield {"role": "tool", "tool_call_id": str(part.get("id", "")), "content": _content(part.get("content"))}
    if parts:
        calls = list(map(_call, parts["tool_call"]))
        more = {"reasoning_content": _content(parts["thinking"]), "tool_calls": calls}
        yield {"role": role, "content": _content(parts["said"]), **{name: each for name, each in more.items() if each}}


def _content(value: object) -> str:
    """Convert parts to one text; a picture or sound becomes a short description."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Sequence):
        return "\n".join(map(_content, value))
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
    function = {key: value for key, value in tool.items() if key != "type"}
    return {"type": "function", "function": function} if tool.get("type") == "function" else dict(tool)


def build_trace(record: Record, experiment_id: str, run_id: str) -> Trace:
    """Build the trace of one sample, epoch and attempt, with its assessments; `run_id` is MLflow's id of the run."""
    trace_id, usage = derive_trace_id(record), record.usage
    # Nanoseconds since 1970, exact to the microsecond that `started_at` has.
    start_ns = round(datetime.fromisoformat(record.started_at).timestamp() * 1_000_000) * 1000
    response = record.answer if record.answer is not None else f"error: {record.error}" if record.error else ""
    info = TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=start_ns // 1_000_000,
        execution_duration=round(record.wall_seconds * 1000),
        state=TraceState.ERROR if record.error else TraceState.OK,
        request_preview=format_request_preview(record),
        response_preview=truncate(response, PREVIEW_CHARS),
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


@dataclass(frozen=True)
class _SpanBuilder:
    """Converts steps of a record's trajectory to spans."""

    record: Record
    trace_id: str
    start_ns: int

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
        trace, span = int(self.trace_id[3:], 16), int(derive_span_id(self.record, number), 16)
        return SpanContext(trace, span, is_remote=False, trace_flags=_FLAGS)

    def _ns(self, seconds: float) -> int:
        return self.start_ns + round(seconds * 1e9)

    def _attributes(self, step: Step) -> dict[str, str]:
        inputs, outputs, own, record = step.inputs, step.outputs, step.attributes, self.record
        if step.id == ROOT:
            inputs = {"question": record.question, **({"file": record.file} if record.file else {})}
            outputs = {"answer": record.answer, "reasoning_trace": record.reasoning_trace}
        elif step.kind == "lm":
            inputs, outputs = to_chat_request(inputs), to_chat_reply(outputs, own.get("finish_reason"))
        found: JsonObject = {
            "mlflow.traceRequestId": self.trace_id,
            "mlflow.spanType": _SPAN_TYPES.get(step.kind, "CHAIN"),
            "mlflow.spanInputs": inputs or None,
            "mlflow.spanOutputs": outputs or None,
            "cut_off": True if step.end_seconds is None else None,
            **(_model_attributes(step) if step.kind == "lm" else {}),
            **{name: value for name, value in own.items() if name not in _IN_OTHER_FIELDS},
        }
        return {name: to_json_text(value) for name, value in found.items() if value is not None}

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
    (provider, model), cost_usd = _split_model(step), step.attributes.get("cost_usd")
    return {
        "mlflow.message.format": "openai",
        "mlflow.llm.model": model,
        "mlflow.llm.provider": provider or None,
        "mlflow.llm.cost": _cost(cost_usd),
        "mlflow.chat.tokenUsage": _tokens(step.attributes) if "input_tokens" in step.attributes else None,
        "cost_unknown": True if cost_usd is None else None,
    }


def _tokens(counts: JsonObject) -> dict[str, int]:
    sent, received = counts.get("input_tokens") or 0, counts.get("output_tokens") or 0
    found = {"input_tokens": sent, "output_tokens": received, "total_tokens": sent + received}
    cached = counts.get("cached_input_tokens") or 0
    return found | ({"cache_read_input_tokens": cached} if cached else {})


def _cost(cost_usd: float | None) -> dict[str, float]:
    """Return the cost in US dollars. Records know a call's whole cost, not how it divides."""
    return {"input_cost": 0.0, "output_cost": 0.0, "total_cost": float(cost_usd or 0.0)}


def to_storable(value: object) -> object:
    """Return a copy that MLflow can store: the same structure, with texts repaired and cut."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        stored = {clean_text(str(key)): to_storable(item) for key, item in value.items()}
        return stored | {"type": f"{stored['type']} (not shown)"} if stored.get("type") in _PICTURE_PARTS else stored
    if isinstance(value, list | tuple):
        return [to_storable(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def to_json_text(value: object) -> str:
    """Return the value as MLflow keeps attributes of spans."""
    return json.dumps(to_storable(value), ensure_ascii=False)


# The assessments


def build_assessments(record: Record, run_id: str, start_ns: int) -> Iterator[Assessment]:
    """Build the assessments of a record; `run_id` is MLflow's.

    They have the same names whatever the verdict: a new one replaces the old, but MLflow would keep one that is no
    longer sent. A question in error is not correct, as in the accuracy.
    """
    done_ms = start_ns // 1_000_000 + round(record.wall_seconds * 1000)
    for assessment in _list_assessments(record):
        assessment.assessment_id = derive_assessment_id(record, assessment.name)
        assessment.trace_id, assessment.span_id = derive_trace_id(record), derive_span_id(record, ROOT)
        assessment.run_id, assessment.metadata = run_id, {"mlflow.assessment.sourceRunId": run_id}
        assessment.create_time_ms = assessment.last_update_time_ms = done_ms
        yield assessment


def _list_assessments(record: Record) -> Iterator[Assessment]:
    """Yield the assessments without ids and times. A judge leaves a span of its own, a rule leaves none."""
    error = clean_text(record.error or "") or None
    judges = [step["name"] for step in record.trajectory if step["kind"] == "scorer"]
    judge = next((name for name in judges if not name.startswith(EXTRA)), None)
    scorer = AssessmentSource("LLM_JUDGE", judge) if judge else AssessmentSource("CODE", "scorer")
    if record.scored:
        yield Expectation(GOLD, clean_text(record.target or ""), source=AssessmentSource("HUMAN", "dataset"))
        why = clean_text(record.explanation) or (f"error: {error}" if error else None)
        yield Feedback(CORRECT, record.correct, rationale=why, source=scorer)
    for part, value in record.parts.items():
        taken = part in (GOLD, CORRECT, ERROR_CLASS, FORMAT_OK)  # by a scorer of the user's own
        name = FORMAT_OK if part == FORMAT_LOSS else f"part_{part}" if taken else part
        yield Feedback(name, value == 0 if part == FORMAT_LOSS else to_storable(value), source=scorer)
    for extra, found in record.extra_scores.items():
        kind = "LLM_JUDGE" if f"{EXTRA}{extra}" in judges else "CODE"
        why = clean_text(found.error or found.explanation) or None
        source = AssessmentSource(kind, extra)
        yield Feedback(f"extra_{extra}", to_storable(read_value(found.value)), rationale=why, source=source)
    for verdict in record.human:
        text = f"corrected to {verdict.target}" if verdict.target is not None else ""
        why = clean_text(": ".join(filter(None, (text, verdict.note)))) or None
        source = AssessmentSource("HUMAN", verdict.who or "unknown")
        name = "human_review_question" if verdict.is_of_question else "human_review"
        yield Feedback(name, verdict.label.replace("_", " "), rationale=why, source=source)
    harness = AssessmentSource("CODE", "harness")
    yield Feedback(ERROR_CLASS, record.error_class or "none", rationale=error, source=harness)
