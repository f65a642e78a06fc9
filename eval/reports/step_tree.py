"""What was done for a question, step by step, as the page shows it: from the record's trajectory alone.

It knows spans and no system. Calls to models are added up in the agent that made them; every text is cut.

    steps_of(record.trajectory)[0].title      # "planner"
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval.cli.terminal_text import shorten_line
from mas.runtime.untrusted import label_of

MAX_TEXT_CHARS = 2_000  # of each text on the page
MAX_ASKED_CHARS = 300  # of what an agent was asked: mostly the answers of those before it
MAX_INLINE_CHARS = 100  # of an argument within the call
MAX_STEPS = 200  # of a question
_REJECTED = "reject"
_FRAME = ("question", "orchestrator")  # what stands around the steps
_MORE = "more"

Fields = list[tuple[str, str]]  # name and text; an empty name: the text speaks for itself


@dataclass(slots=True)
class Calls:
    """To language models."""

    n: int = 0
    again: int = 0  # of these: sent again after a failure
    kept: int = 0  # of these: answered by the run's own log or the shared cache
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cost_is_known: bool = True
    waited_seconds: float = 0.0

    def add(self, attributes: Mapping[str, Any]) -> None:
        self.n += 1
        self.again += bool(attributes.get("retry") or attributes.get("attempt", 1) > 1)
        self.kept += bool(attributes.get("replayed") or attributes.get("cached"))
        self.input_tokens += attributes.get("input_tokens") or 0
        self.output_tokens += attributes.get("output_tokens") or 0
        self.cost_usd += attributes.get("cost_usd") or 0.0
        self.cost_is_known &= attributes.get("cost_usd") is not None
        self.waited_seconds += attributes.get("waited_seconds") or 0.0

    def told(self) -> Iterator[str]:
        if not self.n:
            return
        kinds = [(self.again, "sent again"), (self.kept, "answered before")]
        of_these = ", ".join(f"{n} {what}" for n, what in kinds if n)
        yield f"{format_count(self.n, 'model call')}{f' ({of_these})' if of_these else ''}"
        yield f"{self.input_tokens:,} + {self.output_tokens:,} tokens"
        yield format_cost(self.cost_usd if self.cost_is_known else None)
        if self.waited_seconds >= 0.05:
            yield f"waited {self.waited_seconds:.1f} s"


@dataclass(slots=True)
class Step:
    kind: str  # as that of its span
    title: str
    seconds: float | None  # None: cut off
    asked: str = ""
    said: Fields = field(default_factory=list)
    decision: str = ""  # of a critic
    warnings: list[str] = field(default_factory=list)
    error: str = ""
    remark: str = ""  # where a tool's result came from, if it was not called
    calls: Calls = field(default_factory=Calls)
    inner: list["Step"] = field(default_factory=list)  # the tools that an agent used

    @property
    def rejected(self) -> bool:
        return self.decision == _REJECTED

    @property
    def facts(self) -> str:
        took = [] if self.kind in (*_FRAME, _MORE) else ["cut off" if self.seconds is None else f"{self.seconds:.1f} s"]
        return " · ".join([*took, *self.calls.told(), *([self.remark] if self.remark else [])])


def build_steps(trajectory: Sequence[Mapping[str, Any]]) -> list[Step]:
    """In the order of their beginning; of very many the first."""
    parents = {span.get("id"): span.get("parent") for span in trajectory}
    made: dict[Any, Step] = {}
    top: list[Step] = []
    n_more = 0
    for span in trajectory:
        around = _around(span, parents, made)
        if span.get("kind") == "lm" and around is not None:
            _add_call(around, span)
        elif len(made) == MAX_STEPS:
            n_more += span.get("kind") not in ("lm", *_FRAME)
        elif (step := _step(span)) is not None:
            made[span.get("id")] = step
            (top if around is None else around.inner).append(step)
    return [*top, Step(_MORE, f"… {format_count(n_more, 'step')} more in records.jsonl", None)] if n_more else top


def _around(span: Mapping[str, Any], parents: Mapping[Any, Any], made: Mapping[Any, Step]) -> Step | None:
    parent = span.get("parent")
    while parent is not None:
        if parent in made and made[parent].kind not in _FRAME:
            return made[parent]
        parent = parents.get(parent)
    return None


def _add_call(around: Step, span: Mapping[str, Any]) -> None:
    around.calls.add(span.get("attributes") or {})
    if error := span.get("error"):
        around.warnings.append(_in_one_line(f"call to {span.get('name')} {describe_failure(str(error))}"))
    around.warnings += map(_in_one_line, list_warnings(span.get("events") or []))


def _step(span: Mapping[str, Any]) -> Step | None:
    kind, attributes = str(span.get("kind")), span.get("attributes") or {}
    error = "" if kind == "question" else str(span.get("error") or "")  # the question's stands above its steps
    step = Step(kind, str(span.get("name", "")), _seconds(span))
    step.error = _in_one_line(describe_failure(error)) if error else ""
    step.warnings = list(map(_in_one_line, list_warnings(span.get("events") or [])))
    if kind in _FRAME:
        return step if step.warnings or step.error else None
    inputs, outputs = dict(span.get("inputs") or {}), dict(span.get("outputs") or {})
    if kind == "tool":
        _tell_tool(step, inputs, outputs, attributes)
    elif kind == "lm":
        step.asked, step.said = (
            shorten_line(_asked_of_model(inputs), MAX_ASKED_CHARS),
            [("", cut_text(_reply(outputs)))],
        )
        step.calls.add(attributes)
    else:
        step.decision = str(outputs.pop("decision", None) or "")
        step.asked = shorten_line("; ".join(map(_text, inputs.values())), MAX_ASKED_CHARS)
        step.said = list(_fields(outputs))
        if (index := attributes.get("step_index")) is not None:
            step.title += f", research step {index + 1}"
    return step


def _tell_tool(
    step: Step, inputs: Mapping[str, Any], outputs: Mapping[str, Any], attributes: Mapping[str, Any]
) -> None:
    label = label_of(step.title) if attributes.get("untrusted") else ""  # it is for the agent
    shown = {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in inputs.items()}
    long = {name for name, text in shown.items() if len(text) > MAX_INLINE_CHARS or "\\n" in text}
    step.title += f"({', '.join(f'{name}=' + ('…' if name in long else text) for name, text in shown.items())})"
    step.said = [(name, cut_text(_text(inputs[name]))) for name in inputs if name in long]
    step.said += [("", cut_text(_text(value).removeprefix(label))) for value in outputs.values()]
    if attributes.get("replayed"):
        step.remark = "answered before in this run"
    elif attributes.get("cached"):
        step.remark = "from the shared cache"


def list_warnings(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Rejections stand in the critic's outputs; what else went wrong stands nowhere but in the events."""
    for each in events:
        if each["level"] != "info" and each["name"] != "decision":
            fields = {key: value for key, value in each.items() if key not in ("name", "level", "seconds")}
            yield f"{each['name']}: {', '.join(f'{key} {value}' for key, value in fields.items())}"


def describe_failure(error: str) -> str:
    """Cancelled: the deadline passed, or something beside it failed; the question's own error says which."""
    return "stopped" if error.startswith("CancelledError") else f"failed: {error}"


def cut_text(text: str) -> str:
    more = len(text) - MAX_TEXT_CHARS
    return text if more <= 0 else f"{text[:MAX_TEXT_CHARS]}… {more:,} characters more in records.jsonl"


def _in_one_line(text: str) -> str:
    return cut_text(" ".join(text.split()))


def format_cost(cost_usd: float | None) -> str:
    return "cost unknown" if cost_usd is None else f"${cost_usd:,.4f}"


def format_count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _seconds(span: Mapping[str, Any]) -> float | None:
    end = span.get("end_seconds")
    return None if end is None else end - span.get("start_seconds", 0.0)


def _fields(outputs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in outputs.items():
        if value not in (None, "", []):
            yield name.replace("_", " "), cut_text(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(f"{number}. {each}" for number, each in enumerate(value, start=1))
    return json.dumps(value, ensure_ascii=False, default=str)


def _asked_of_model(inputs: Mapping[str, Any]) -> str:
    messages = inputs.get("messages") or []
    return _reply(messages[-1]) if messages else ""


def _reply(message: Mapping[str, Any]) -> str:
    return "\n".join(str(part["text"]) if "text" in part else _text(part) for part in message.get("parts") or [])
