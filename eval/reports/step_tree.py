"""The steps of a sample as pages show them: calls to models are added up in the agent that made them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from eval.reports.formats import NOT_AVAILABLE, format_usd
from eval.runs.record import NOT_RUN, Record
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count
from mas.runtime.trace import Span
from mas.runtime.untrusted import remove_marks

MAX_TEXT_CHARS = 2_000  # of each text on the page
MAX_PROMPT_CHARS = 200_000  # of each message of a prompt, and of a reply
MAX_INLINE_CHARS = 100  # of an argument within the call
_FRAME = ("question", "orchestrator")  # kinds of the spans around the steps

Json = dict[str, object]


@dataclass
class Step:
    """One agent, tool or other span on the page."""

    kind: str  # of its span
    title: str
    span: int  # its id
    took: str
    said: list[tuple[str, str]] = field(default_factory=list)  # name, which may be empty, and text
    decision: str = ""  # of a critic
    warnings: list[str] = field(default_factory=list)
    error: str = ""
    calls: list[Span] = field(default_factory=list)  # to language models
    inner: list["Step"] = field(default_factory=list)  # the tools that an agent used

    def to_dict(self) -> Json:
        facts = " · ".join(filter(None, (self.took, *_list_facts(self.calls))))
        inner = [each.to_dict() for each in self.inner]
        return {**vars(self), "facts": facts, "calls": [each.id for each in self.calls], "inner": inner}


def build_steps(trajectory: Sequence[Mapping[str, object]]) -> list[Json]:
    """Return the steps in the order of their beginning."""
    top: list[Step] = []
    outer_steps: dict[int | None, Step | None] = {}  # id of a span → the step that what is in it belongs to
    for span in _read_spans(trajectory):
        outer = outer_steps[span.id] = outer_steps.get(span.parent)
        if span.kind == "lm" and outer is not None:
            outer.calls.append(span)
            if span.error:
                outer.warnings.append(f"call to {span.name} {_describe_failure(span.error)}")
            outer.warnings += _list_warnings(span)
        elif (step := build_step(span)) is not None:
            (top if outer is None else outer.inner).append(step)
            if span.kind not in _FRAME:
                outer_steps[span.id] = step
    return [each.to_dict() for each in top]


def build_calls(trajectory: Sequence[Mapping[str, object]]) -> dict[str, Json]:
    """Return each call to a model with its whole prompt and reply, by the id of its span."""
    return {str(span.id): _build_call(span) for span in _read_spans(trajectory) if span.kind == "lm"}


def mark_answer(record: Record) -> str:
    if record.error is not None:
        return "not run" if record.error_class == NOT_RUN else "error"
    if not record.scored:
        return "unscored"
    return "right" if record.correct else "partial" if record.value else "wrong"


def _read_spans(trajectory: Sequence[Mapping[str, object]]) -> Iterator[Span]:
    """Yield spans of which only some fields may be known; one without an id gets a negative one."""
    for number, data in enumerate(trajectory, start=1):
        known = {each.name: data[each.name] for each in fields(Span) if data.get(each.name) is not None}
        yield Span(**{"id": -number, "parent": None, "kind": "", "name": "", "start_seconds": 0.0, **known})  # type: ignore[arg-type]


def _list_facts(calls: Sequence[Span]) -> Iterator[str]:
    if not calls:
        return
    facts = [span.attributes for span in calls]
    yield format_count(len(calls), "model call")
    n_in, n_out = (sum(each.get(f"{name}_tokens") or 0 for each in facts) for name in ("input", "output"))
    yield f"{n_in:,} + {n_out:,} tokens"
    costs = [each.get("cost_usd") for each in facts]
    yield format_cost(None if None in costs else sum(cost or 0.0 for cost in costs))


def _build_call(span: Span) -> Json:
    messages = [(str(each.get("role") or ""), _join_parts(each)) for each in span.inputs.get("messages") or []]
    if system := span.inputs.get("system"):
        messages.insert(0, ("system", str(system)))
    return {
        "title": " · ".join([span.name, _describe_time(span), *list(_list_facts([span]))[1:]]),
        "messages": [(role, cut_text(text, MAX_PROMPT_CHARS)) for role, text in messages],
        "reply": cut_text(_join_parts(span.outputs), MAX_PROMPT_CHARS),
        "error": _describe_failure(span.error) if span.error else "",
    }


def build_step(span: Span) -> Step | None:
    """Return a span as a step; None for the frame around the steps, if nothing has gone wrong there."""
    step = Step(span.kind, span.name, span.id, "" if span.kind in _FRAME else _describe_time(span))
    if span.error and span.kind != "question":  # the page shows the sample's error above its steps
        step.error = _describe_failure(span.error)
    step.warnings = list(_list_warnings(span))
    if span.kind in _FRAME:
        return step if step.warnings or step.error else None
    if span.kind == "tool":
        _describe_tool(step, span)
    elif span.kind == "lm":
        step.said = [("", cut_text(_join_parts(span.outputs)))]
        step.calls.append(span)
    else:
        outputs = dict(span.outputs)
        step.decision = str(outputs.pop("decision", None) or "")
        known = {name: value for name, value in outputs.items() if value not in (None, "", [])}
        step.said = [(name.replace("_", " "), cut_text(_format_value(value))) for name, value in known.items()]
        if (index := span.attributes.get("step_index")) is not None:
            step.title += f", research step {index + 1}"
    return step


def _describe_tool(step: Step, span: Span) -> None:
    shown = {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in span.inputs.items()}
    long = {name for name, text in shown.items() if len(text) > MAX_INLINE_CHARS or "\\n" in text}
    step.title += f"({', '.join(f'{name}=' + ('…' if name in long else text) for name, text in shown.items())})"
    step.said = [(name, cut_text(_format_value(span.inputs[name]))) for name in span.inputs if name in long]
    step.said += [("", cut_text(remove_marks(_format_value(value)))) for value in span.outputs.values()]


def _list_warnings(span: Span) -> Iterator[str]:
    """Yield the warnings among a span's events; a critic's rejections are in its outputs."""
    for each in span.events:
        if each["level"] != "info" and each["name"] != "decision":
            parts = [f"{key} {value}" for key, value in each.items() if key not in ("name", "level", "seconds")]
            yield shorten_line(f"{each['name']}: {', '.join(parts)}", MAX_TEXT_CHARS)


def _describe_time(span: Span) -> str:
    return "cut off" if span.end_seconds is None else f"{span.seconds:.1f} s"


def _describe_failure(error: str) -> str:
    """Return the error of a span in one line; after a cancellation the sample's own error says why."""
    return "stopped" if error.startswith("CancelledError") else shorten_line(f"failed: {error}", MAX_TEXT_CHARS)


def cut_text(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return the beginning of a long text, with a note."""
    more = len(text) - max_chars
    return text if more <= 0 else f"{text[:max_chars]}… {more:,} characters more"


def format_cost(cost_usd: float | None) -> str:
    return f"cost {NOT_AVAILABLE}" if cost_usd is None else format_usd(cost_usd)


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(f"{number}. {each}" for number, each in enumerate(value, start=1))
    return json.dumps(value, ensure_ascii=False, default=str)


def _join_parts(message: Mapping[str, object]) -> str:
    parts = message.get("parts")
    if not isinstance(parts, list):
        return ""
    return "\n".join(str(part["text"]) if "text" in part else _format_value(part) for part in parts)
