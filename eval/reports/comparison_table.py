"""Runs compared, in the terminal: a table of numbers, the verdict in sentences, and the samples that flipped.

print_comparison(compare_read_runs(runs, intersection=False), Console())
"""

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from eval.analysis.comparison.compare_runs import ComparisonResult, ReadRun, RunComparison, describe_answers
from eval.analysis.comparison.comparison import HeldOut
from eval.analysis.statistics.intervals import Interval
from eval.analysis.statistics.paired_means import MeanDifference
from eval.analysis.statistics.paired_tests import PairedResult
from eval.execution.console import Console
from eval.reports.formats import NOT_AVAILABLE, format_p_value, format_percent, format_points, format_usd
from eval.reports.tables import Table
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

Row = Sequence[str]  # name, of the first, of the second, difference, its interval


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
        differ = list(list_differences(pair))
        more = [f"… and {n} more: --html FILE"] if (n := len(differ) - _MAX_SETTINGS) > 0 else []
        verdict = describe_verdict(pair, len(result.comparisons))
        for line in (*verdict, *pair.notes, *differ[:_MAX_SETTINGS], *more):
            console.print(Text(line), soft_wrap=True)
        flips = pair.comparison.flips
        if flips:
            console.print(_build_flips(pair).build("questions that flipped", _describe_marks(pair), whole=1))
        if (n := len(flips) - MAX_FLIPS) > 0:
            console.print(Text(f"… and {n} more: --html FILE"))


def describe_run(run: ReadRun) -> str:
    """Return one line about a run."""
    times = f", {run.epochs} answers per question" if run.epochs > 1 else ""
    return f"{run.label}: {run.name} (system {run.system}, model {run.model}, prompts {run.prompts or 'none'}{times})"


def build_numbers(pair: RunComparison) -> Table:
    """Return a pair's numbers: of the first, of the second, difference with its interval."""
    headings = ("", pair.against, pair.run, f"{pair.run} - {pair.against}", "95% interval")
    return Table(headings, list(_list_numbers(pair)))


def _list_numbers(pair: RunComparison) -> Iterator[Row]:
    comparison = pair.comparison
    first, second = comparison.first, comparison.second
    yield _compare_scores(comparison.metric, (first.score, second.score), comparison.score)
    intervals = (_format_interval(each.score_ci95, format_percent) for each in (first, second))
    yield _SIDES_INTERVAL, *intervals, "", ""
    held_out = pair.used_to_tune
    if held_out and held_out.without and held_out.scores:
        yield _compare_scores(f"on the {held_out.n_without} not tuned on", held_out.scores, held_out.without)
    if comparison.metric != ACCURACY:
        yield "fully right", format_percent(first.accuracy), format_percent(second.accuracy), "", ""
    for name, extra in comparison.extra.items():
        yield _compare_scores(f"{name}: {extra.metric}", (extra.first, extra.second), extra.result)
    yield _compare_means("lost by format", comparison.format_losses, format_percent, format_points, " points")
    cost = comparison.cost_usd
    if cost is None or cost.first or cost.second:  # a simulated model costs nothing
        yield _compare_means("cost/answer", cost, "${:,.5f}".format, "{:+,.5f}".format)
    yield _compare_means("time/answer", comparison.seconds, "{:,.2f} s".format, "{:+,.2f}".format, " s")
    yield _compare_means("tokens/answer", comparison.tokens, "{:,.0f}".format, "{:+,.0f}".format)
    yield "tokens in all", f"{first.tokens:,}", f"{second.tokens:,}", "", ""
    yield "cost in all", format_usd(first.cost_usd), format_usd(second.cost_usd), "", ""
    errors = (", ".join(f"{name} {n}" for name, n in each.errors_by_class.items()) for each in (first, second))
    yield "errors", *(each or "none" for each in errors), "", ""


def _compare_scores(name: str, scores: tuple[float | None, float | None], result: PairedResult) -> Row:
    change, bounds = f"{format_points(result.difference)} points", _format_interval(result.ci95, format_points)
    return name, format_percent(scores[0]), format_percent(scores[1]), change, bounds


def _compare_means(
    name: str,
    means: MeanDifference | None,
    format_amount: Callable[[float], str],
    format_change: Callable[[float], str],
    unit: str = "",
) -> Row:
    if means is None:
        return name, NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE, ""
    interval = _format_interval(means.ci95, format_change)
    change = format_change(means.difference) + unit
    return name, format_amount(means.first), format_amount(means.second), change, interval


def describe_verdict(pair: RunComparison, n_comparisons: int) -> Iterator[str]:
    """Yield sentences about p and its basis."""
    score = pair.comparison.score
    n, epochs, shows = score.n_questions, score.epochs, score.smallest_difference
    times = "" if epochs == 1 else f", each answered at least {epochs} times"
    adjusted = ""
    if n_comparisons > 1:
        adjusted = f", {format_p_value(pair.p_holm)} as one of {n_comparisons} comparisons (Holm)"
    yield f"p {format_p_value(score.p)} by {score.test}{adjusted}; {format_count(n, 'question')}{times}"
    if pair.used_to_tune:
        yield from _describe_held_out(pair.used_to_tune, n, n_comparisons)
    won = f"{pair.run} is better on {format_count(score.wins, 'question')}, worse on {score.losses}"
    yield f"{won}, equal on {score.ties}"
    if shows is None:
        yield "too few questions to show any difference reliably"
    else:
        yield f"these questions would show a true difference of {100 * shows:.1f} points in 80 of 100 such comparisons"


def _describe_held_out(held_out: HeldOut, n: int, n_comparisons: int) -> Iterator[str]:
    """Yield the warning that belongs to p."""
    sets = " and ".join(f"of {label}, {prompts}" for label, prompts in held_out.sets.items())
    used = f"all {n}" if held_out.without is None else f"{held_out.n_questions} of the {n}"
    too_high = "p and the difference over all of them are too optimistic"
    yield f"warning: {used} questions were used to tune the prompts {sets}: {too_high}"
    if (without := held_out.without) is None:
        yield "no question is left that was not"
        return
    single = "" if n_comparisons == 1 else f", not adjusted for {n_comparisons} comparisons"
    yield (
        f"on the other {held_out.n_without}: {format_points(without.difference)} points "
        f"(95% interval {_format_interval(without.ci95, format_points)}), "
        f"p {format_p_value(without.p)} by {without.test}{single}"
    )


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


def _build_flips(pair: RunComparison) -> Table:
    """Return a row for each of the samples with the largest difference."""
    flips = pair.comparison.flips
    headings = ("question", pair.against, pair.run, "gold", "asked")
    rows = []
    for flip in flips[:MAX_FLIPS]:
        answers = map(_join_epochs, describe_answers(flip))
        asked = shorten_line(flip.question, QUESTION_CHARS)
        cells = (*answers, flip.target, asked)
        rows.append([shorten_line(flip.id, _ID_CHARS), *(shorten_line(each, SHORT_CHARS) for each in cells)])
    return Table(headings, rows, left=headings)


def _describe_marks(pair: RunComparison) -> str:
    """Return the meaning of the marks before the answers."""
    return f"✓ right, {'' if pair.comparison.metric == ACCURACY else '◐ partly right, '}✗ wrong, ! error"


def _join_epochs(answers: Sequence[str]) -> str:
    """Return `✓✗✓ 17, 18`: the verdicts of all epochs, then the answers that differ."""
    marks, texts = zip(*(each.split(" ", 1) for each in answers), strict=True)
    return f"{''.join(marks)} {', '.join(dict.fromkeys(texts))}"


def _format_interval(bounds: Interval | None, format_bound: Callable[[float], str]) -> str:
    return " to ".join(map(format_bound, bounds)) if bounds else NOT_AVAILABLE
