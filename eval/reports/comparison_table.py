"""Runs compared, and the verdict of the regression gate, in the terminal: no question, answer or target is printed."""

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from eval.analysis.comparison.compare_runs import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    ComparisonResult,
    GateResult,
    ReadRun,
    RunComparison,
)
from eval.analysis.statistics.paired_tests import MeanDifference
from eval.execution.console import Console
from eval.reports.formats import (
    NOT_AVAILABLE,
    Table,
    format_interval,
    format_p_value,
    format_percent,
    format_points,
)
from eval.scorers.score import ACCURACY
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count

MAX_ID_CHARS = 40  # of the id of a question; --json has all of it
MAX_CHARS = 240  # of a setting
_MAX_SETTINGS = 10  # that are listed; --html and --json have all
MAX_IDS = 10  # of the questions that got better, or worse; --html and --json have all
_STYLES = {PASS: "bold green", FAIL: "bold red", INCONCLUSIVE: "bold yellow"}
_SENTENCES = {
    PASS: "gate passed: {} no worse than allowed",
    FAIL: "gate failed: {} worse than allowed",
    INCONCLUSIVE: "gate inconclusive: these answers neither show nor rule out a loss in {}",
}

Format = Callable[[float], str]


def print_comparison(result: ComparisonResult, console: Console) -> None:
    """Print the result."""
    if result.notice:
        console.print(Text(result.notice, style="bold yellow"))
    for run in result.runs:
        console.print(Text(describe_run(run)), soft_wrap=True)
    for pair in result.comparisons:
        console.print(build_numbers(pair).build(f"{pair.run} compared with {pair.against}", whole=1))
        verdict, differ = describe_verdict(pair, len(result.comparisons)), list(list_differences(pair))
        more = [f"… and {n} more: --html FILE"] if (n := len(differ) - _MAX_SETTINGS) > 0 else []
        for line in (*verdict, *pair.notes, *differ[:_MAX_SETTINGS], *more, *_list_flips(pair)):
            console.print(Text(line), soft_wrap=True)


def _list_flips(pair: RunComparison) -> Iterator[str]:
    for name, sign in {"better": 1, "worse": -1}.items():
        if ids := [id for id, difference in pair.comparison.flips.items() if sign * difference > 0]:
            more = f" and {len(ids) - MAX_IDS} more" if len(ids) > MAX_IDS else ""
            listed = ", ".join(shorten_line(each, MAX_ID_CHARS) for each in ids[:MAX_IDS])
            yield f"{name} in {pair.run}: {listed}{more} (--html FILE shows the answers)"


def describe_run(run: ReadRun) -> str:
    """Return one line about a run."""
    facts, epochs = run.to_dict(), run.answers.epochs
    times = f", {epochs} answers per question" if epochs > 1 else ""
    parts = f"system {facts['system']}, model {facts['model']}, prompts {facts['prompts'] or 'none'}"
    return f"{run.label}: {run.name} ({parts}{times})"


def build_numbers(pair: RunComparison) -> Table:
    """Return a pair's numbers: of the first, of the second, difference with its interval."""
    comparison, rows = pair.comparison, list[Sequence[str]]()
    first, second, score, cost = comparison.first, comparison.second, comparison.score, comparison.cost_usd

    def add(name: str, means: MeanDifference | None, form: Format, form_change: Format, unit: str = "") -> None:
        if means is None:
            rows.append((name, NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE, ""))
        else:
            change, bounds = form_change(means.difference) + unit, format_interval(means.ci95, form_change)
            rows.append((name, form(means.first), form(means.second), change, bounds))

    scores = MeanDifference(score.n_questions, first.score, second.score, score.difference, score.ci95)
    add(comparison.metric, scores, format_percent, format_points, " points")
    if comparison.metric != ACCURACY:
        rows.append(("fully right", format_percent(first.accuracy), format_percent(second.accuracy), "", ""))
    if cost is None or cost.first or cost.second:  # a simulated model costs nothing
        add("cost/answer", cost, "${:,.5f}".format, "{:+,.5f}".format)
    add("time/answer", comparison.seconds, "{:,.2f} s".format, "{:+,.2f}".format, " s")
    add("tokens/answer", comparison.tokens, "{:,.0f}".format, "{:+,.0f}".format)
    errors = (", ".join(f"{name} {n}" for name, n in each.errors_by_class.items()) for each in (first, second))
    rows.append(("errors", *(each or "none" for each in errors), "", ""))
    return Table(("", pair.against, pair.run, f"{pair.run} - {pair.against}", "95% interval"), rows)


def describe_verdict(pair: RunComparison, n_comparisons: int) -> Iterator[str]:
    """Yield sentences about p and its basis."""
    score = pair.comparison.score
    n, epochs, shows = score.n_questions, score.epochs, score.smallest_difference
    times = "" if epochs == 1 else f", each answered at least {epochs} times"
    adjusted = ""
    if n_comparisons > 1:
        adjusted = f", {format_p_value(pair.p_holm)} as one of {n_comparisons} comparisons (Holm)"
    yield f"p {format_p_value(score.p)} by {score.test}{adjusted}; {format_count(n, 'question')}{times}"
    won = f"{pair.run} is better on {format_count(score.wins, 'question')}, worse on {score.losses}"
    yield f"{won}, equal on {score.ties}"
    if shows is None:
        yield "too few questions to show any difference reliably"
    else:
        yield f"these questions would show a true difference of {100 * shows:.1f} points in 80 of 100 such comparisons"


def list_differences(pair: RunComparison) -> Iterator[str]:
    """Yield every option, prompt and tool in which the two runs differ."""
    yield from (f"{name}: {shorten_line(change, MAX_CHARS)}" for name, change in pair.differs.items())
    if not pair.differs:
        yield "options, prompts and tools are the same"
    if any(name.startswith("prompt ") for name in pair.differs):
        yield "the texts of prompts: python optimize/diff.py SET SET"


def print_gate(pair: RunComparison, gate: GateResult, console: Console) -> None:
    """Print the table, what the verdict rests on, and the verdict as the last line."""
    metric = pair.comparison.metric
    title = f"gate: {metric} of B, the new run, compared with A, its base"
    console.print(_build_gate_table(pair, gate).build(title, whole=1))
    for line in _list_remarks(pair, gate):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(_SENTENCES[gate.verdict].format(metric), style=_STYLES[gate.verdict]), soft_wrap=True)


def _list_remarks(pair: RunComparison, gate: GateResult) -> Iterator[str]:
    """Yield why nothing is decided, and what the verdict rests on."""
    if gate.verdict == INCONCLUSIVE:
        yield f"{pair.comparison.metric}: {_explain(gate)}"
    if pair.n_tuned_on:
        yield f"{format_count(pair.n_tuned_on, 'question')} left out: prompts were tuned on them"
    yield f"alpha {gate.alpha:g}, one-sided"


def _explain(gate: GateResult) -> str:
    if gate.by_chance:
        return "worse than allowed, but equal programs might well differ so much"
    if not gate.margin:
        return "with a margin of 0 only a gain can pass; allow a loss with --margin"
    return "too few questions to decide, or a change that is too close to the limit"


def _build_gate_table(pair: RunComparison, gate: GateResult) -> Table:
    made, interval = pair.comparison, f"{100 * (1 - 2 * gate.alpha):.3g}% interval"
    headings = ("verdict", "base", "new", "points", interval, "limit")
    change, low, high, allowed = map(format_points, (made.score.difference, gate.lower, gate.upper, -gate.margin))
    shares = (format_percent(made.first.score), format_percent(made.second.score))
    return Table(headings, [(gate.verdict, *shares, change, f"{low} to {high}", allowed)])
