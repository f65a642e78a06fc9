"""A question's steps as they happen: colours and a spinner on a terminal, plain lines anywhere else.

It knows spans and no system: what an agent gave is shown field by field, its verdict (`decision`) first.

    with Steps(Console(), redact=str) as steps:
        steps.observer(span)        # calculator(expression="2+2") → 4
"""

import json
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from eval.reports.step_tree import describe_failure, list_warnings
from eval.runs.record import Record
from mas.runtime.trace import Span
from mas.runtime.untrusted import label_of

MAX_ARGUMENT_CHARS = 100
MAX_LINE_CHARS = 200  # of a tool's result
INDENT = "  "


class LiveSteps:
    """Spans may come from any thread; each prints whole lines."""

    def __init__(self, console: Console, redact: Callable[[str], str]) -> None:
        """`redact` takes secrets out of every line."""
        self._console, self._redact = console, redact
        self._status = Status("", console=console) if console.is_terminal else None
        self._agent_at_work = ""
        self._over = False

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True  # an interrupted question ends its spans a little later
        if self._status:
            self._status.stop()

    def observer(self, span: Span) -> None:
        """Show a span that has just opened or ended."""
        if self._over:
            return
        if span.end_seconds is None:
            self._opened(span)
        elif span.kind == "tool":
            self._tool(span)
        else:
            self._warnings(span)
            if span.kind == "agent":
                self._agent(span)

    def _opened(self, span: Span) -> None:
        if span.kind in ("agent", "tool"):
            self._at_work(span.name)
        if span.kind == "agent":
            self._agent_at_work = span.name
            index = span.attributes.get("step_index")
            step = "" if index is None else f", research step {index + 1}"
            self._line(span.name + step, style="bold cyan")

    def _at_work(self, name: str) -> None:
        if self._status:
            self._status.update(Text(f"{name} …", style="dim"))

    def _tool(self, span: Span) -> None:
        self._at_work(self._agent_at_work)
        arguments = ", ".join(f"{name}={_value(value)}" for name, value in span.inputs.items())
        if span.error:
            result, style = describe_failure(span.error), "red"
        else:
            label = label_of(span.name) if span.attributes.get("untrusted") else ""  # it is for the agent
            shown = [str(value).removeprefix(label) for value in span.outputs.values()]
            lines = [line for text in shown for line in text.splitlines() if line.strip()]
            result, style = (lines or ["(nothing)"])[0], ""
        self._line(f"{INDENT}{span.name}({arguments}) → {_cut(result, MAX_LINE_CHARS)}", style=style)

    def _agent(self, span: Span) -> None:
        outputs = dict(span.outputs)
        if decision := outputs.pop("decision", None):
            self._line(f"{INDENT}{decision}", style="bold red" if decision == "reject" else "bold green")
        for line in _fields(outputs):
            self._line(INDENT + line)
        if span.error:
            self._line(INDENT + describe_failure(span.error), style="red")

    def _warnings(self, span: Span) -> None:
        for warning in list_warnings(span.events):
            self._line(INDENT + warning, style="yellow")

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(replace_unprintable(self._redact(text)), style=style), soft_wrap=True)


def print_answer(record: Record, console: Console, redact: Callable[[str], str]) -> None:
    """The answer with its reasoning, then what it cost."""
    console.print()
    if record.error is None:
        answer = "(none)" if record.answer is None else record.answer
        for name, value in (("answer", answer), ("reasoning", record.reasoning_trace)):
            lines = [replace_unprintable(line) for line in redact(value).splitlines()]
            console.print(Text.assemble((f"{name}: ", "bold"), "\n".join(lines)), soft_wrap=True)
    for name, value in _cost(record):
        console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)


def replace_unprintable(line: str) -> str:
    """The text on one line, without characters that would steer a terminal."""
    return "".join(each if each.isprintable() else " " for each in line)


def _cost(record: Record) -> Iterator[tuple[str, str]]:
    usage = record.usage
    yield "calls", f"{usage.lm_calls:,} to language models, {usage.tool_calls:,} to tools"
    yield "tokens", f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"
    yield "time", f"{record.wall_seconds:,.1f} s"
    yield "cost", "n/a" if usage.cost_usd is None else f"${usage.cost_usd:,.4f}"


def _fields(outputs: Mapping[str, Any]) -> Iterator[str]:
    for name, value in outputs.items():
        title = name.replace("_", " ")
        if isinstance(value, list):
            yield f"{title}:" if value else f"{title}: none"
            yield from (f"{INDENT}{number}. {element}" for number, element in enumerate(value, start=1))
        elif value:
            yield f"{title}: {value}"


def _value(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, default=str), MAX_ARGUMENT_CHARS)


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
