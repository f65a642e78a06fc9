"""Runs compared, in the terminal: a table of numbers, the verdict in sentences, and the samples that flipped.

print_comparison(compare_read_runs(runs, intersection=False), Console())
"""

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from eval.analysis.comparison.answers import GivenAnswer
from eval.analysis.comparison.compare_runs import ComparisonResult, ReadRun, RunComparison
from eval.analysis.comparison.comparison import Side
from eval.analysis.statistics.paired_tests import MeanDifference, PairedResult
from eval.execution.console import Console
from eval.reports.formats import (
    NOT_AVAILABLE,
    Table,
    format_interval,
    format_p_value,
    format_percent,
    format_points,
    format_usd,
)
from eval.runs.record import NOT_RUN
from eval.scorers.score import ACCURACY
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count

MAX_FLIPS = 20  # --html and --json have all
QUESTION_CHARS = 60  # --html has whole questions and answers
SHORT_CHARS = 200  # of an answer, a reason
_ID_CHARS = 12  # of the id of a question; --json has all of it
MAX_CHARS = 240  # of a setting
_MAX_SETTINGS = 10  # that are listed; --html and --json have all
_SIDES_INTERVAL, _FOR_SIDES_INTERVAL = "its 95% interval", 90  # the row, and the columns of a terminal that it needs
_NOTHING = "options, prompts and tools are the same"

Format = Callable[[float], str]


def print_comparison(result: ComparisonResult, console: Console) -> None:
    """Print the result."""
    if result.notice:
        console.print(Text(result.notice, style="bold yellow"))
    for run in result.runs:
        console.print(Text(describe_run(run)), soft_wrap=True)
    for pair in result.comparisons:
        table = build_numbers(pair)
        rows = [row for row in table.rows if row[0] != _SIDES_INTERVAL or console.width >= _FOR_SIDES_INTERVAL]
        console.print(Table(table.headings, rows).build(f"{pair.run} compared with {pair.against}", whole=1))
        differ, verdict = list(list_differences(pair)), describe_verdict(pair, len(result.comparisons))
        more = _describe_more(len(differ) - _MAX_SETTINGS)
        for line in (*verdict, *pair.notes, *differ[:_MAX_SETTINGS], *more):
            console.print(Text(line), soft_wrap=True)
        if pair.comparison.flips:
            partly = "" if pair.comparison.metric == ACCURACY else "◐ partly right, "
            marks = f"✓ right, {partly}✗ wrong, ! error"
            console.print(_build_flips(pair).build("questions that flipped", marks, whole=1))
        for line in _describe_more(len(pair.comparison.flips) - MAX_FLIPS):
            console.print(Text(line))


def _describe_more(n: int) -> list[str]:
    return [f"… and {n} more: --html FILE"] if n > 0 else []


def describe_run(run: ReadRun) -> str:
    """Return one line about a run."""
    times = f", {run.epochs} answers per question" if run.epochs > 1 else ""
    return f"{run.label}: {run.name} (system {run.system}, model {run.model}, prompts {run.prompts or 'none'}{times})"


def build_numbers(pair: RunComparison) -> Table:
    """Return a pair's numbers: of the first, of the second, difference with its interval."""
    comparison, rows = pair.comparison, list[Sequence[str]]()
    first, second = comparison.first, comparison.second

    def add_scores(name: str, scores: tuple[float, float], result: PairedResult) -> None:
        change, bounds = f"{format_points(result.difference)} points", format_interval(result.ci95, format_points)
        rows.append((name, *map(format_percent, scores), change, bounds))

    def add_means(name: str, means: MeanDifference | None, form: Format, form_change: Format, unit: str = "") -> None:
        if means is None:
            rows.append((name, NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE, ""))
        else:
            change, bounds = form_change(means.difference) + unit, format_interval(means.ci95, form_change)
            rows.append((name, form(means.first), form(means.second), change, bounds))

    def add_sides(name: str, read: Callable[[Side], str]) -> None:
        rows.append((name, read(first), read(second), "", ""))

    add_scores(comparison.metric, (first.score, second.score), comparison.score)
    add_sides(_SIDES_INTERVAL, lambda side: format_interval(side.score_ci95))
    if comparison.metric != ACCURACY:
        add_sides("fully right", lambda side: format_percent(side.accuracy))
    add_means("lost by format", comparison.format_losses, format_percent, format_points, " points")
    cost = comparison.cost_usd
    if cost is None or cost.first or cost.second:  # a simulated model costs nothing
        add_means("cost/answer", cost, "${:,.5f}".format, "{:+,.5f}".format)
    add_means("time/answer", comparison.seconds, "{:,.2f} s".format, "{:+,.2f}".format, " s")
    add_means("tokens/answer", comparison.tokens, "{:,.0f}".format, "{:+,.0f}".format)
    add_sides("tokens in all", lambda side: f"{side.tokens:,}")
    add_sides("cost in all", lambda side: format_usd(side.cost_usd))
    add_sides("errors", lambda side: ", ".join(f"{name} {n}" for name, n in side.errors_by_class.items()) or "none")
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
    differs = pair.differs
    kinds = {"prompt": differs.prompts, "tools of": differs.tools, "option": differs.options}
    found = [
        f"{kind} {name}: {shorten_line(change, MAX_CHARS)}"
        for kind, changed in kinds.items()
        for name, change in changed.items()
    ]
    yield from found or [_NOTHING]
    if differs.prompts:
        yield "the texts of prompts: python optimize/diff.py SET SET"


def _build_flips(pair: RunComparison) -> Table:
    """Return a row for each of the samples with the largest difference."""
    headings = ("question", pair.against, pair.run, "gold", "asked")
    rows = []
    for flip in pair.comparison.flips[:MAX_FLIPS]:
        cells = (
            *map(_join_epochs, (flip.first, flip.second)),
            flip.target,
            shorten_line(flip.question, QUESTION_CHARS),
        )
        rows.append([shorten_line(flip.id, _ID_CHARS), *(shorten_line(each, SHORT_CHARS) for each in cells)])
    return Table(headings, rows, left=headings)


def _join_epochs(answers: Sequence[GivenAnswer | None]) -> str:
    """Return `✓✗✓ 17, 18`: the verdicts of all epochs, then the answers that differ."""
    marks, texts = zip(*map(_describe_answer, answers), strict=True)
    return f"{''.join(marks)} {', '.join(dict.fromkeys(texts))}"


def _describe_answer(answer: GivenAnswer | None) -> tuple[str, str]:
    if answer is None or answer.error_class:
        return "!", answer.error_class or "" if answer else NOT_RUN
    return "✓" if answer.correct else "✗" if answer.value == 0 else "◐", answer.text
