"""A record as a trace of MLflow: one span per step, with the conversation of each call to a model.

MLflow's page shows a conversation only in the form of OpenAI's chat completions, with texts for content. Records
hold it as DSPy does: messages made of parts, the system prompt apart. Ids are derived from run, sample, epoch and
attempt of a record, and the experiment: sending it again meets the same rows.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
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
    *("run_id", "level", "epoch", "attempt", "thread_id", "file", "error_class", "error_component", "limit"),
)
_IN_OTHER_FIELDS = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd", "model")
CORRECT = "correct"
FORMAT_LOSS, FORMAT_OK = "format_loss", "format_ok"  # a part, and what MLflow shows: its pages paint False red


def derive_trace_id(record: Record, experiment_id: str) -> str:
    return f"tr-{_digest(record, experiment_id)[:32]}"


def derive_assessment_id(record: Record, experiment_id: str, name: str) -> str:
    return f"a-{_digest(record, experiment_id, name)[:32]}"


def _digest(record: Record, *parts: object) -> str:
    key = (record.run_id, record.sample_id, record.epoch, record.attempt, *parts)
    return hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()


def to_chat_request(inputs: JsonObject) -> JsonObject:
    """Convert a span's inputs; what is neither message nor tool (temperature and the like) stays as it is."""
    rest = dict(inputs)
    system, messages, tools = (rest.pop(name, None) for name in ("system", "messages", "tools"))
    first = [{"role": "system", "content": _join(system)}] if system else []
    rest["messages"] = [*first, *(each for message in messages or [] for each in _convert_message(message))]
    return {**rest, "tools": list(map(_convert_tool, tools))} if tools else rest


def to_chat_reply(outputs: JsonObject, finish_reason: object) -> JsonObject:
    """Convert a span's outputs; empty if there was no reply."""
    if "parts" not in outputs:
        return dict(outputs)
    message = next(_convert_message(outputs), {"role": "assistant", "content": ""})
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


def _convert_message(message: Message) -> Iterator[JsonObject]:
    """Convert one message; each tool result in it becomes a message of its own, as in OpenAI's form."""
    role = str(message.get("role", "user")).replace("developer", "system")
    if "parts" not in message:
        yield {"role": role, "content": _join(message.get("content"))}
        return
    parts: defaultdict[str, list[Any]] = defaultdict(list)
    for part in message["parts"]:
        kind = part.get("type")
        parts[kind if kind in ("tool_result", "tool_call", "thinking") else "said"].append(part)
    for part in parts.pop("tool_result", ()):
        yield {"role": "tool", "tool_call_id": str(part.get("id", "")), "content": _join(part.get("content"))}
    if parts:
        calls = list(map(_convert_call, parts["tool_call"]))
        more = {"reasoning_content": _join(parts["thinking"]), "tool_calls": calls}
        yield {"role": role, "content": _join(parts["said"]), **{name: each for name, each in more.items() if each}}


def _join(value: object) -> str:
    """Convert parts to one text; a picture or sound becomes a short description."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Sequence):
        return "\n".join(map(_join, value))
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return str(value["text"])
    if isinstance(value, Mapping) and "media_type" in value:
        where = value.get("data") or value.get("url") or value.get("path") or ""
        return f"[{value.get('type')} {value['media_type']}: {str(where)[:200]}]"
    return json.dumps(value, ensure_ascii=False, default=str)


def _convert_call(part: Mapping[str, Any]) -> JsonObject:
    given = part.get("input")
    arguments = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False, default=str)
    function = {"name": str(part.get("name", "")), "arguments": arguments}
    return {"id": str(part.get("id", "")), "type": "function", "function": function}


def _convert_tool(tool: JsonObject) -> JsonObject:
    function = {key: value for key, value in tool.items() if key != "type"}
    return {"type": "function", "function": function} if tool.get("type") == "function" else dict(tool)


def build_trace(record: Record, experiment_id: str, run_id: str) -> Trace:
    """Build the trace of one sample, epoch and attempt, with its assessments; `run_id` is MLflow's id of the run."""
    trace_id, usage = derive_trace_id(record, experiment_id), record.usage
    # Nanoseconds since 1970, exact to the microsecond that `started_at` has.
    start_ns = round(datetime.fromisoformat(record.started_at).timestamp() * 1_000_000) * 1000
    spans = [_build_span(record, step, trace_id, start_ns) for step in list_shown_steps(record)]
    assessments = list(_list_assessments(record))
    for each in assessments:
        each.assessment_id = derive_assessment_id(record, experiment_id, each.name)
        each.trace_id, each.span_id = trace_id, spans[0].span_id
        each.run_id, each.metadata = run_id, {"mlflow.assessment.sourceRunId": run_id}
        each.create_time_ms = each.last_update_time_ms = start_ns // 1_000_000 + round(record.wall_seconds * 1000)
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
            "mlflow.trace.tokenUsage": json.dumps(_describe_tokens(asdict(usage))),
            "mlflow.trace.cost": json.dumps(_describe_cost(usage.cost_usd)),
        },
        tags=_list_tags(record),
        assessments=assessments,
    )
    return Trace(info, TraceData(spans))


def format_request_preview(record: Record) -> str:
    """Return the question with its id, epoch and attempt: MLflow pairs the rows of two runs by this text.

    The id comes last, because lists show the beginning; a long question is cut, so that equal ones still differ by id.
    """
    epoch = f" · epoch {record.epoch}" if record.epoch > 1 else ""
    attempt = f" · attempt {record.attempt}" if record.attempt > 1 else ""
    end = truncate(f" · {record.sample_id}{epoch}{attempt}", PREVIEW_CHARS // 2)
    return truncate(record.question, PREVIEW_CHARS - len(end)) + end


def _list_tags(record: Record) -> dict[str, str]:
    found = {
        "mlflow.traceName": record.sample_id,
        "harness.question_id": record.sample_id,
        **{f"harness.{name}": getattr(record, name) for name in _OF_RECORD},
        "harness.cost_usd": "n/a" if record.usage.cost_usd is None else record.usage.cost_usd,
    }
    return {name: truncate(str(value), 500) for name, value in found.items() if value is not None and value != ""}


def list_shown_steps(record: Record) -> list[Step]:
    """Return the record's steps; those of an orchestrator hold nothing but events, which go to the question.

    A page with a row for each decision between two agents hides the agents.
    """
    steps = [Step(**each) for each in record.trajectory] or [Step(ROOT, None, "question", "question", 0.0)]
    shown = [step for step in steps if step.kind != "orchestrator" or step.error]
    moved = [event for step in steps if step not in shown for event in step.events]
    return [replace(step, events=[*step.events, *moved]) if step.id == ROOT else step for step in shown]


def _build_span(record: Record, step: Step, trace_id: str, start_ns: int) -> Span:
    is_root = step.id == ROOT
    name = step.name.split("/", 1)[-1] if step.kind == "lm" else step.name  # without the provider
    error = step.error or (record.error if is_root else None)
    end_seconds = max(record.wall_seconds, step.start_seconds) if step.end_seconds is None else step.end_seconds

    def build_context(number: int) -> SpanContext:
        span_id = int(_digest(record, number)[:16], 16)
        return SpanContext(int(trace_id[3:], 16), span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    def build_event(name: str, seconds: float, fields: Mapping[str, object]) -> Event:
        plain = {
            clean_text(key): to_json_text(value) if isinstance(value, dict | list) else clean_text(str(value))
            for key, value in fields.items()
            if value is not None and key not in ("name", "seconds")
        }
        return Event(truncate(name, 250), plain, start_ns + round(seconds * 1e9))

    events = [
        build_event(str(event.get("name", "event")), event.get("seconds", step.start_seconds), event)
        for event in step.events
    ]
    if error:
        kind = step.error.partition(":")[0] if step.error else record.error_class or "error"
        events.append(build_event("exception", end_seconds, {"exception.type": kind, "exception.message": error}))
    span = ReadableSpan(
        name="question" if step.kind == "question" else truncate(name, 250),
        context=build_context(step.id),
        # A scorer's span has no parent, as it begins after the question's has ended.
        parent=None if is_root else build_context(step.parent or ROOT),
        resource=Resource({}),
        attributes=_list_attributes(record, step, trace_id),
        events=events,
        status=Status(StatusCode.ERROR, clean_text(error)) if error else Status(StatusCode.OK),
        start_time=start_ns + round(step.start_seconds * 1e9),
        end_time=start_ns + round(end_seconds * 1e9),
    )
    return Span(span)


def _list_attributes(record: Record, step: Step, trace_id: str) -> dict[str, str]:
    inputs, outputs, own = step.inputs, step.outputs, step.attributes
    found: JsonObject = {
        "mlflow.traceRequestId": trace_id,
        "mlflow.spanType": _SPAN_TYPES.get(step.kind, "CHAIN"),
        "cut_off": True if step.end_seconds is None else None,
        **{name: value for name, value in own.items() if name not in _IN_OTHER_FIELDS},
    }
    if step.id == ROOT:
        inputs = {"question": record.question, **({"file": record.file} if record.file else {})}
        outputs = {"answer": record.answer, "reasoning_trace": record.reasoning_trace}
    elif step.kind == "lm":
        inputs, outputs = to_chat_request(inputs), to_chat_reply(outputs, own.get("finish_reason"))
        *provider, model = str(own.get("model") or step.name).split("/", 1)
        found |= {
            "mlflow.message.format": "openai",
            "mlflow.llm.model": model,
            "mlflow.llm.provider": provider[0] if provider else None,
            # MLflow prices a span without a cost itself, so an unknown cost is 0, and marked.
            "mlflow.llm.cost": _describe_cost(own.get("cost_usd")),
            "mlflow.chat.tokenUsage": _describe_tokens(own) if "input_tokens" in own else None,
            "cost_unknown": True if own.get("cost_usd") is None else None,
        }
    found |= {"mlflow.spanInputs": inputs or None, "mlflow.spanOutputs": outputs or None}
    return {name: to_json_text(value) for name, value in found.items() if value is not None}


def _describe_tokens(counts: JsonObject) -> dict[str, int]:
    sent, received = counts.get("input_tokens") or 0, counts.get("output_tokens") or 0
    found = {"input_tokens": sent, "output_tokens": received, "total_tokens": sent + received}
    cached = counts.get("cached_input_tokens") or 0
    return found | ({"cache_read_input_tokens": cached} if cached else {})


def _describe_cost(cost_usd: float | None) -> dict[str, float]:
    """Return the cost in US dollars. Records know a call's whole cost, not how it divides."""
    return {"input_cost": 0.0, "output_cost": 0.0, "total_cost": float(cost_usd or 0.0)}


def to_json_text(value: object) -> str:
    """Return the value as MLflow keeps attributes of spans."""
    return clean_text(json.dumps(value, ensure_ascii=False, default=str))


def _list_assessments(record: Record) -> Iterator[Assessment]:
    """Yield the assessments without ids and times. A judge leaves a span of its own, a rule leaves none.

    They have the same names whatever the verdict: a new one replaces the old, but MLflow would keep one that is no
    longer sent. A question in error is not correct, as in the accuracy.
    """
    error = clean_text(record.error or "") or None
    judges = [step["name"] for step in record.trajectory if step["kind"] == "scorer"]
    judge = next((name for name in judges if not name.startswith(EXTRA)), None)
    scorer = AssessmentSource("LLM_JUDGE", judge) if judge else AssessmentSource("CODE", "scorer")
    if record.scored:
        yield Expectation("expected_response", clean_text(record.target or ""), AssessmentSource("HUMAN", "dataset"))
        why = clean_text(record.explanation) or (f"error: {error}" if error else None)
        yield Feedback(CORRECT, record.correct, rationale=why, source=scorer)
    for part, value in record.parts.items():
        if part == FORMAT_LOSS:
            yield Feedback(FORMAT_OK, value == 0, source=scorer)
        else:
            yield Feedback(f"part_{part}", value, source=scorer)
    for extra, found in record.extra_scores.items():
        source = AssessmentSource("LLM_JUDGE" if f"{EXTRA}{extra}" in judges else "CODE", extra)
        why = clean_text(found.error or found.explanation) or None
        yield Feedback(f"extra_{extra}", read_value(found.value), rationale=why, source=source)
    for verdict in record.human:
        name = "human_review_question" if verdict.is_of_question else "human_review"
        corrected = "" if verdict.target is None else f"corrected to {verdict.target}"
        why = clean_text(": ".join(filter(None, (corrected, verdict.note)))) or None
        source = AssessmentSource("HUMAN", verdict.who or "unknown")
        yield Feedback(name, verdict.label.replace("_", " "), rationale=why, source=source)
    harness = AssessmentSource("CODE", "harness")
    yield Feedback("error_class", record.error_class or "none", rationale=error, source=harness)
