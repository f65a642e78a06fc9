"""Print a sample's steps as they happen: colours and a spinner on a terminal, plain lines anywhere else.

Spans of any system can be shown: an agent's outputs field by field, its verdict (`decision`) first.

    with LiveSteps(Console(), redact=str) as steps:
        steps.observe(span)        # calculator(expression="2+2") → 4
"""

import json
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.status import Status
from rich.text import Text

from eval.execution.console import Console
from eval.reports.formats import format_usd
from eval.reports.step_tree import describe_failure, list_warnings
from eval.runs.record import Record
from mas.runtime.terminal import shorten_line
from mas.runtime.trace import Span
from mas.runtime.untrusted import remove_marks

MAX_ARGUMENT_CHARS = 100
MAX_LINE_CHARS = 200  # of a tool's result
_INDENT = "  "


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
            for warning in list_warnings(span.events):
                self._print_line(warning, "yellow")
            if span.kind == "agent":
                self._print_agent(span)

    def _print_opened(self, span: Span) -> None:
        if span.kind in ("agent", "tool"):
            self._show_status(span.name)
        if span.kind == "agent":
            self._agent_name = span.name
            index = span.attributes.get("step_index")
            step = "" if index is None else f", research step {index + 1}"
            self._print_line(span.name + step, style="bold cyan", indent=0)

    def _show_status(self, name: str) -> None:
        if self._status:
            self._status.update(Text(f"{name} …", style="dim"))

    def _print_tool(self, span: Span) -> None:
        self._show_status(self._agent_name)
        values = ((name, json.dumps(value, ensure_ascii=False, default=str)) for name, value in span.inputs.items())
        arguments = ", ".join(f"{name}={shorten_line(text, MAX_ARGUMENT_CHARS)}" for name, text in values)
        if span.error:
            result, style = describe_failure(span.error), "red"
        else:
            shown = [remove_marks(str(value)) for value in span.outputs.values()]
            lines = [line for text in shown for line in text.splitlines() if line.strip()]
            result, style = (lines or ["(nothing)"])[0], ""
        self._print_line(f"{span.name}({arguments}) → {shorten_line(result, MAX_LINE_CHARS)}", style)

    def _print_agent(self, span: Span) -> None:
        outputs = dict(span.outputs)
        if decision := outputs.pop("decision", None):
            self._print_line(str(decision), "bold red" if decision == "reject" else "bold green")
        for name, value in outputs.items():
            title = name.replace("_", " ")
            if isinstance(value, list):
                self._print_line(f"{title}:" if value else f"{title}: none")
                for number, element in enumerate(value, start=1):
                    self._print_line(f"{number}. {element}", indent=2)
            elif value:
                self._print_line(f"{title}: {value}")
        if span.error:
            self._print_line(describe_failure(span.error), "red")

    def _print_line(self, text: str, style: str = "", indent: int = 1) -> None:
        line = " ".join(self._redact(text).split())
        self._console.print(Text(_INDENT * indent + line, style=style), soft_wrap=True)


def print_answer(record: Record, console: Console, redact: Callable[[str], str]) -> None:
    """Print the answer with its reasoning, then its usage."""
    console.print()
    usage = record.usage
    facts = {
        "answer": "(none)" if record.answer is None else redact(record.answer),
        "reasoning": redact(record.reasoning_trace),
        "calls": f"{usage.lm_calls:,} to language models, {usage.tool_calls:,} to tools",
        "tokens": f"{usage.input_tokens:,} in, {usage.output_tokens:,} out",
        "time": f"{record.wall_seconds:,.1f} s",
        "cost": format_usd(usage.cost_usd),
    }
    for name, value in facts.items():
        if record.error is None or name not in ("answer", "reasoning"):
            console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)
