"""Print a sample's steps as they happen. Spans of any system can be shown.

steps = LiveSteps(Console(), redact=str)
steps.observe(span)        # calculator(expression="2+2") → 4
"""

from collections.abc import Callable

from rich.text import Text

from eval.execution.console import Console
from eval.reports.formats import format_usd
from eval.reports.step_tree import build_step
from eval.runs.record import Record
from mas.runtime.terminal import shorten_line
from mas.runtime.trace import Span

MAX_LINE_CHARS = 200  # of a tool's result
_INDENT = "  "


class LiveSteps:
    """Observer of a trace that prints. Spans may come from any thread; each prints whole lines."""

    def __init__(self, console: Console, redact: Callable[[str], str]) -> None:
        """`redact` removes secrets from every line."""
        self._console, self._redact = console, redact
        self.is_closed = False  # an interrupted sample ends its spans a little later

    def observe(self, span: Span) -> None:
        """Show a span that has just opened or ended."""
        step = None if self.is_closed else build_step(span)
        if step is None:
            return
        if span.end_seconds is None:
            if span.kind == "agent":
                self._print_line(step.title, style="bold cyan", indent=0)
        elif span.kind == "tool":
            said = [line for _, text in step.said[-1:] for line in text.splitlines() if line.strip()]
            result = step.error or (said or ["(nothing)"])[0]
            line = f"{step.title} → {shorten_line(result, MAX_LINE_CHARS)}"
            self._print_line(line, "red" if step.error else "")
        else:
            for warning in step.warnings:
                self._print_line(warning, "yellow")
            if step.decision:
                self._print_line(step.decision, "bold red" if step.decision == "reject" else "bold green")
            for name, text in step.said if span.kind == "agent" else ():
                first, *more = text.splitlines() or [""]
                for number, line in enumerate([f"{name}:", first, *more] if more else [f"{name}: {first}"]):
                    self._print_line(line, indent=2 if number else 1)
            if step.error and span.kind == "agent":
                self._print_line(step.error, "red")

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
