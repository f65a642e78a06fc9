"""Print a sample's steps as they happen: colours and a spinner on a terminal, plain lines anywhere else.

Spans of any system can be shown: an agent's outputs field by field, its verdict (`decision`) first.

    with LiveSteps(Console(), redact=str) as steps:
        steps.observe(span)        # calculator(expression="2+2") → 4
"""

import json
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self

from rich.status import Status
from rich.text import Text

from eval.execution.console import Console
from eval.reports.step_tree import describe_failure, list_warnings
from eval.runs.record import Record
from mas.runtime.trace import Span
from mas.runtime.untrusted import remove_marks

MAX_ARGUMENT_CHARS = 100
MAX_LINE_CHARS = 200  # of a tool's result
INDENT = "  "


class LiveSteps:
    """Observer of a trace that prints. Spans may come from any thread; each prints whole lines."""

    def __init__(self, console: Console, redact: Callable[[str], str]) -> None:
        """`redact` removes secrets from every line."""
        self._console, self._redact = console, redact
        self._status = Status("", console=console) if console.is_terminal else None
        self._agent_name = ""
        self._closed = False

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True  # an interrupted sample ends its spans a little later
        if self._status:
            self._status.stop()

    def observe(self, span: Span) -> None:
        """Show a span that has just opened or ended."""
        if self._closed:
            return
        if span.end_seconds is None:
            self._print_opened(span)
        elif span.kind == "tool":
            self._print_tool(span)
        else:
            self._print_warnings(span)
            if span.kind == "agent":
                self._print_agent(span)

    def _print_opened(self, span: Span) -> None:
        if span.kind in ("agent", "tool"):
            self._show_status(span.name)
        if span.kind == "agent":
            self._agent_name = span.name
            index = span.attributes.get("step_index")
            step = "" if index is None else f", research step {index + 1}"
            self._print_line(span.name + step, style="bold cyan")

    def _show_status(self, name: str) -> None:
        if self._status:
            self._status.update(Text(f"{name} …", style="dim"))

    def _print_tool(self, span: Span) -> None:
        self._show_status(self._agent_name)
        arguments = ", ".join(f"{name}={_format_value(value)}" for name, value in span.inputs.items())
        if span.error:
            result, style = describe_failure(span.error), "red"
        else:
            shown = [remove_marks(str(value)) for value in span.outputs.values()]
            lines = [line for text in shown for line in text.splitlines() if line.strip()]
            result, style = (lines or ["(nothing)"])[0], ""
        self._print_line(f"{INDENT}{span.name}({arguments}) → {_cut_line(result, MAX_LINE_CHARS)}", style=style)

    def _print_agent(self, span: Span) -> None:
        outputs = dict(span.outputs)
        if decision := outputs.pop("decision", None):
            self._print_line(f"{INDENT}{decision}", style="bold red" if decision == "reject" else "bold green")
        for line in _list_fields(outputs):
            self._print_line(INDENT + line)
        if span.error:
            self._print_line(INDENT + describe_failure(span.error), style="red")

    def _print_warnings(self, span: Span) -> None:
        for warning in list_warnings(span.events):
            self._print_line(INDENT + warning, style="yellow")

    def _print_line(self, text: str, style: str = "") -> None:
        self._console.print(Text(replace_unprintable(self._redact(text)), style=style), soft_wrap=True)


def print_answer(record: Record, console: Console, redact: Callable[[str], str]) -> None:
    """Print the answer with its reasoning, then its usage."""
    console.print()
    if record.error is None:
        answer = "(none)" if record.answer is None else record.answer
        for name, value in (("answer", answer), ("reasoning", record.reasoning_trace)):
            lines = [replace_unprintable(line) for line in redact(value).splitlines()]
            console.print(Text.assemble((f"{name}: ", "bold"), "\n".join(lines)), soft_wrap=True)
    for name, value in _list_usage(record):
        console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)


def replace_unprintable(line: str) -> str:
    """Return the text on one line, without characters that would control a terminal."""
    return "".join(each if each.isprintable() else " " for each in line)


def _list_usage(record: Record) -> Iterator[tuple[str, str]]:
    usage = record.usage
    yield "calls", f"{usage.lm_calls:,} to language models, {usage.tool_calls:,} to tools"
    yield "tokens", f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"
    yield "time", f"{record.wall_seconds:,.1f} s"
    yield "cost", "n/a" if usage.cost_usd is None else f"${usage.cost_usd:,.4f}"


def _list_fields(outputs: Mapping[str, object]) -> Iterator[str]:
    for name, value in outputs.items():
        title = name.replace("_", " ")
        if isinstance(value, list):
            yield f"{title}:" if value else f"{title}: none"
            yield from (f"{INDENT}{number}. {element}" for number, element in enumerate(value, start=1))
        elif value:
            yield f"{title}: {value}"


def _format_value(value: object) -> str:
    return _cut_line(json.dumps(value, ensure_ascii=False, default=str), MAX_ARGUMENT_CHARS)


def _cut_line(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
