"""Sentences and the table of a verdict, for the terminal and for `eval.reports.regression_gate.files`.

print_gate(result, Console())
describe_verdict(result)            # "gate failed: accuracy worse than allowed"
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from eval.analysis.comparison.regression_gate import COST, GatedRun, GateResult, JudgedMetric
from eval.analysis.statistics.regression import FAIL, INCONCLUSIVE, PASS
from eval.execution.console import Console
from eval.reports.notes import format_percent, format_points
from mas.runtime.text import format_count

_FOR_VALUES = 100  # columns that a terminal must have for both runs' values
_STYLES = {PASS: "bold green", FAIL: "bold red", INCONCLUSIVE: "bold yellow"}
_DECIDES = "would pass in 80 of 100 comparisons (an estimate from the spread of the differences seen)"


def print_gate(result: GateResult, console: Console) -> None:
    """Print the table, what would decide, and the verdict as the last line."""
    headings = list_headings(result)
    shown = [n for n, each in enumerate(headings) if each not in ("base", "new") or console.width >= _FOR_VALUES]
    table = Table(title=Text("gate: B, the new run, compared with A, its base"))
    for place in shown:
        table.add_column(headings[place], justify="left" if place < 2 else "right", no_wrap=place < 2)
    for each in result.metrics:
        cells = [each.verdict, *list_cells(each)]
        table.add_row(*(Text(cells[place]) for place in shown))
    console.print(table)
    for line in (*describe_undecided(result), *describe_basis(result)):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(describe_verdict(result), style=_STYLES[result.verdict]), soft_wrap=True)


def describe_verdict(result: GateResult) -> str:
    """Return the verdict in one sentence."""
    names = {verdict: [each.name for each in result.metrics if each.verdict == verdict] for verdict in _STYLES}
    if result.verdict == FAIL:
        return f"gate failed: {_join(names[FAIL])} worse than allowed"
    if result.verdict == INCONCLUSIVE:
        return f"gate inconclusive: these answers neither show nor rule out a loss in {_join(names[INCONCLUSIVE])}"
    return f"gate passed: {_join(names[PASS])} no worse than allowed"


def describe_undecided(result: GateResult) -> Iterator[str]:
    """Yield a sentence for each metric that is not decided: what would decide."""
    for each in result.metrics:
        if each.verdict == INCONCLUSIVE:
            yield f"{each.name}: {_explain(each)}"


def _explain(judged: JudgedMetric) -> str:
    needed = judged.questions_needed
    if needed is None:
        return "with a margin of 0 only a gain can pass; allow a loss with --margin"
    if judged.by_chance:
        why = "worse than allowed, but equal programs might well differ so much"
    elif needed <= judged.n_questions:
        return (
            f"the change is too close to the limit: if nothing had changed, {needed:,} questions {_DECIDES}, "
            f"and there are {judged.n_questions:,}"
        )
    else:
        why = "too few answers to decide"
    ways = [f"about {_round(needed):,} questions (now {judged.n_questions:,})"]
    if judged.epochs_needed:
        ways.append(f"about {judged.epochs_needed} answers to each question (run.epochs, now {judged.epochs})")
    return f"{why}; if nothing has changed, {' or '.join(ways)} {_DECIDES}"


def describe_basis(result: GateResult) -> Iterator[str]:
    """Yield sentences about what the verdict rests on."""
    n, epochs = result.n_questions, min(each.epochs for each in result.metrics)
    times = f", each answered {epochs} times" if epochs > 1 else ""
    several = f", shared by {len(result.metrics)} metrics (Bonferroni)" if len(result.metrics) > 1 else ""
    yield f"{format_count(n, 'question')}{times}: score worse on {len(result.worse)}, better on {len(result.better)}"
    if result.n_left_out:
        were = "question is" if result.n_left_out == 1 else "questions are"
        yield f"{result.n_left_out} {were} left out: prompts were tuned on them"
    errors = [f"{name} {run.n_errors} of {run.n_answers}" for name, run in name_runs(result) if run.n_errors]
    if errors:
        yield f"answers in error, which count as wrong: {', '.join(errors)}"
    yield f"alpha {result.alpha:g}, one-sided{several}"


def describe_metric(judged: JudgedMetric, result: GateResult) -> str:
    """Return the numbers of a metric, and what would decide it."""
    _, base, new, change, interval, allowed = list_cells(judged)
    confidence = f"{100 * result.confidence:.3g}% interval"
    numbers = f"{judged.name} {base} → {new}: {change} ({confidence} {interval}; allowed {allowed})"
    return f"{numbers}; {_explain(judged)}" if judged.verdict == INCONCLUSIVE else numbers


def name_runs(result: GateResult) -> Iterable[tuple[str, GatedRun]]:
    """Return both runs with what they are called."""
    return ("base", result.base), ("new", result.new)


def list_headings(result: GateResult) -> list[str]:
    """Return the headings of the table."""
    return ["verdict", "metric", "base", "new", "change", f"{100 * result.confidence:.3g}% interval", "allowed"]


def list_cells(judged: JudgedMetric) -> list[str]:
    """Return name, both values, change, its interval, and the change that is allowed."""
    low, high = judged.lower, judged.upper
    if judged.relative:
        values = [
            f"${value:,.5f}" if judged.metric == COST else f"{value:,.2f} s" for value in (judged.base, judged.new)
        ]
        change, interval = f"{judged.difference:+.1%}", f"{low:+.1%} to {high:+.1%}"
        return [judged.name, *values, change, interval, f"up to {judged.margin:+.1%}"]
    change, interval = f"{format_points(judged.difference)} points", f"{format_points(low)} to {format_points(high)}"
    values = [format_percent(judged.base), format_percent(judged.new)]
    return [judged.name, *values, change, interval, f"down to {format_points(-judged.margin)}"]


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if names[:-1] else "") + names[-1]


def _round(number: int) -> int:
    """Return a number with two digits that count, rounded up."""
    unit: int = 10 ** max(len(str(number)) - 2, 0)
    return -(-number // unit) * unit
