"""One question answered outside a run, with its steps as they happen: the same runner and limits, nothing stored."""

from collections.abc import Callable, Iterator

from rich.text import Text

from eval.benchmarks.dataset import Sample
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.config.evaluation import EvalConfig
from eval.execution.console import Console, open_resources, print_notes
from eval.execution.runner import SampleRunner
from eval.reports.formats import format_usd
from eval.reports.step_tree import Step, build_step
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.runtime.terminal import print_line, shorten_line
from mas.runtime.trace import Span
from mas.simulation import SIMULATED_NOTICE

MAX_LINE_CHARS = 200  # of a tool's result


def show_answer(sample: Sample, config: EvalConfig, prompts: PromptSet | None, with_stack: bool = False) -> int:
    """Answer the question and show the steps as they happen; return the exit code."""
    console = Console()
    if config.needs_model and config.model.simulated:
        console.print(SIMULATED_NOTICE, style="bold yellow")
    steps = LiveSteps(console, config.redact)
    try:
        with open_resources(config) as (resources, notes):
            runner = SampleRunner(
                run_id="ask",
                program=config.system.build(config.model, prompts, resources),
                scorer=config.scorer,  # never called: the sample has no target
                deadline_seconds=config.run.deadline_seconds,
                redact=config.redact,
                open_context=lambda sample_key: SampleContext(sample_key, config.limits),
                observer=steps.observe,
            )
            print_notes(notes)
            record = run_blocking(runner.run_sample(sample, SampleKey(sample.id)))
    except KeyboardInterrupt:
        steps.is_closed = True
        print_line("error: interrupted; nothing is stored.", error=True)
        return STOPPED
    print_answer(record, console, config.redact)
    if record.error is None:
        return FINISHED
    print_line(f"error: {record.error_component}: {record.error}", error=True)
    if with_stack and record.error_details:
        print_line(record.error_details.stack, error=True)
    return FAILURES


class LiveSteps:
    """Observer of a trace that prints. Spans may come from any thread; each prints whole lines."""

    def __init__(self, console: Console, redact: Callable[[str], str]) -> None:
        """`redact` removes secrets from every line."""
        self._console, self._redact = console, redact
        self.is_closed = False  # an interrupted sample ends its spans a little later

    def observe(self, span: Span) -> None:
        step = None if self.is_closed else build_step(span)
        for indent, text, style in _list_lines(span, step) if step else ():
            line = " ".join(self._redact(text).split())
            self._console.print(Text("  " * indent + line, style=style), soft_wrap=True)


def _list_lines(span: Span, step: Step) -> Iterator[tuple[int, str, str]]:
    """Yield indentation, text and style of the lines for a span that has just opened or ended."""
    if span.end_seconds is None:
        if span.kind == "agent":
            yield 0, step.title, "bold cyan"
        return
    if span.kind == "tool":
        said = [line for _, text in step.said[-1:] for line in text.splitlines() if line.strip()]
        result = shorten_line(step.error or (said or ["(nothing)"])[0], MAX_LINE_CHARS)
        yield 1, f"{step.title} → {result}", "red" if step.error else ""
        return
    yield from ((1, warning, "yellow") for warning in step.warnings)
    if step.decision:
        yield 1, step.decision, "bold red" if step.decision == "reject" else "bold green"
    if span.kind == "agent":
        for name, text in step.said:
            first, *more = text.splitlines() or [""]
            yield 1, f"{name}:" if more else f"{name}: {first}", ""
            yield from ((2, line, "") for line in ([first, *more] if more else ()))
        if step.error:
            yield 1, step.error, "red"


def print_answer(record: Record, console: Console, redact: Callable[[str], str]) -> None:
    usage = record.usage
    answer = {"answer": "(none)" if record.answer is None else record.answer, "reasoning": record.reasoning_trace}
    facts = {
        **({name: redact(text) for name, text in answer.items()} if record.error is None else {}),
        "calls": f"{usage.lm_calls:,} to language models, {usage.tool_calls:,} to tools",
        "tokens": f"{usage.input_tokens:,} in, {usage.output_tokens:,} out",
        "time": f"{record.wall_seconds:,.1f} s",
        "cost": format_usd(usage.cost_usd),
    }
    console.print()
    for name, value in facts.items():
        console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)
