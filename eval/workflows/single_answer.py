"""One question answered outside a run, with its steps as they happen: the same runner and limits, nothing stored."""

from collections.abc import Callable

from rich.text import Text

from eval.benchmarks.dataset import Sample
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.config.evaluation import EvalConfig
from eval.execution.console import Console, open_resources, print_notes
from eval.execution.runner import SampleRunner
from eval.reports.formats import format_usd
from eval.reports.step_tree import build_step
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.runtime.terminal import print_line, shorten_line
from mas.runtime.trace import Observer, Span
from mas.simulation import SIMULATED_NOTICE

MAX_LINE_CHARS = 200  # of a tool's result
_INDENT = "  "


def show_answer(sample: Sample, config: EvalConfig, prompts: PromptSet | None) -> int:
    """Answer the question and show the steps as they happen; return the exit code."""
    console = Console()
    if config.needs_model and config.model.simulated:
        console.print(SIMULATED_NOTICE, style="bold yellow")
    steps = LiveSteps(console, config.redact)
    try:
        record = answer_sample(sample, config, prompts, steps.observe)
    except KeyboardInterrupt:
        steps.is_closed = True
        print_line("error: interrupted; nothing is stored.", error=True)
        return STOPPED
    print_answer(record, console, config.redact)
    if record.error is not None:
        print_line(f"error: {record.error_component}: {record.error}", error=True)
        if config.log.terminal and record.error_details:
            print_line(record.error_details.stack, error=True)
    return FINISHED if record.error is None else FAILURES


def answer_sample(sample: Sample, config: EvalConfig, prompts: PromptSet | None, observer: Observer) -> Record:
    """Return the record of the sample, unscored; its spans go to `observer` as they open and end."""
    with open_resources(config) as (resources, notes):
        runner = SampleRunner(
            run_id="ask",
            program=config.system.build(config.model, prompts, resources),
            scorer=config.scorer,  # never called: the sample has no target
            deadline_seconds=config.run.deadline_seconds,
            redact=config.redact,
            open_context=lambda sample_key: SampleContext(sample_key, config.limits),
            observer=observer,
        )
        print_notes(notes)
        return run_blocking(runner.run_sample(sample, SampleKey(sample.id)))


class LiveSteps:
    """Observer of a trace that prints. Spans may come from any thread; each prints whole lines."""

    def __init__(self, console: Console, redact: Callable[[str], str]) -> None:
        """`redact` removes secrets from every line."""
        self._console, self._redact = console, redact
        self.is_closed = False  # an interrupted sample ends its spans a little later

    def observe(self, span: Span) -> None:
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
