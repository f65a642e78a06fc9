"""Runs compared, in the terminal: a table of numbers, the verdict in sentences, and the samples that flipped.

print_comparison(compare_runs(folders, intersection=False), Console())
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count

from rich.table import Table
from rich.text import Text

from eval.analysis.comparison.compare_runs import ComparedRun, ComparisonResult, RunComparison, describe_answers
from eval.analysis.comparison.comparison import HeldOut, Side
from eval.analysis.statistics.intervals import Interval
from eval.analysis.statistics.paired_means import MeanDifference
from eval.execution.console import Console
from eval.reports.notes import NOT_AVAILABLE, format_p_value, format_percent, format_points, format_usd
from eval.scorers.score import ACCURACY
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count

MAX_FLIPS = 20  # --html and --json have all
QUESTION_CHARS = 60  # --html has whole questions and answers
SHORT_CHARS = 200  # of an answer, a reason
MIN_ID_CHARS = 8
MAX_CHARS = 240  # of a setting
_LEGEND = "✓ right, ✗ wrong, ! error"
_GRADED_LEGEND = "✓ right, ◐ partly right, ✗ wrong, ! error"
_SIDES_INTERVAL = "its 95% interval"
# Columns that a terminal must have for: the sides' intervals, padding, the question's text, its level.
_FOR_SIDES_INTERVAL, _FOR_PADDING, _FOR_QUESTION, _FOR_LEVEL = 90, 80, 80, 100
_MAX_SETTINGS = 3  # that are listed without --settings
_NOTHING = "options, prompts and tools are the same"
_NAMED_OPTIONS = {  # name of a run's part → the options that say the same
    "system": ("system._target_", "system.name", "system.default_prompts"),
    "model": ("model.name",),
    "prompts": ("prompts",),
}

Numbers = tuple[str, str, str, str, str]  # name, of the first, of the second, difference, its interval


def print_comparison(result: ComparisonResult, console: Console, settings: bool = False) -> None:
    """Print the result; with `settings` every setting in which two runs differ."""
    if result.notice:
        console.print(Text(result.notice, style="bold yellow"))
    for run in result.runs:
        console.print(Text(describe_run(run)), soft_wrap=True)
    for pair in result.comparisons:
        console.print(_build_numbers_table(pair, console.width))
        differ = list_differences(pair) if settings else shorten_differences(pair, result.runs)
        for line in (*describe_verdict(pair, len(result.comparisons)), *pair.notes, *differ):
            console.print(Text(line), soft_wrap=True)
        flips = pair.comparison.flips
        if flips:
            console.print(build_flips_table(pair, console.width))
        if (more := len(flips) - MAX_FLIPS) > 0:
            console.print(Text(f"… and {more} more: --html FILE"))


def describe_run(run: ComparedRun) -> str:
    """Return one line about a run."""
    times = f", {run.epochs} answers per question" if run.epochs > 1 else ""
    return f"{run.label}: {run.name} (system {run.system}, model {run.model}, prompts {run.prompts or 'none'}{times})"


def list_numbers(pair: RunComparison) -> Iterator[Numbers]:
    """Yield the rows of a pair's table."""
    comparison = pair.comparison
    first, second, score = comparison.first, comparison.second, comparison.score
    yield (
        comparison.metric,
        format_percent(first.score),
        format_percent(second.score),
        f"{format_points(score.difference)} points",
        _format_interval(score.ci95, format_points),
    )
    yield (
        _SIDES_INTERVAL,
        _format_interval(first.score_ci95, format_percent),
        _format_interval(second.score_ci95, format_percent),
        "",
        "",
    )
    held_out = pair.used_to_tune
    if held_out and held_out.without and held_out.scores:
        before, after = map(format_percent, held_out.scores)
        change = f"{format_points(held_out.without.difference)} points"
        bounds = _format_interval(held_out.without.ci95, format_points)
        yield f"on the {held_out.n_without} not tuned on", before, after, change, bounds
    if comparison.metric != ACCURACY:
        yield "fully right", format_percent(first.accuracy), format_percent(second.accuracy), "", ""
    for name, extra in comparison.extra.items():
        yield (
            f"{name}: {extra.metric}",
            format_percent(extra.first),
            format_percent(extra.second),
            f"{format_points(extra.result.difference)} points",
            _format_interval(extra.result.ci95, format_points),
        )
    yield _build_row("lost by format", comparison.format_losses, format_percent, format_points, " points")
    cost = comparison.cost_usd
    if cost is None or cost.first or cost.second:  # a simulated model costs nothing
        yield _build_row("cost/answer", cost, lambda n: f"${n:,.5f}", lambda n: f"{n:+,.5f}")
    yield _build_row("time/answer", comparison.seconds, lambda n: f"{n:,.2f} s", lambda n: f"{n:+,.2f}", " s")
    yield _build_row("tokens/answer", comparison.tokens, lambda n: f"{n:,.0f}", lambda n: f"{n:+,.0f}")
    yield "tokens in all", f"{first.tokens:,}", f"{second.tokens:,}", "", ""
    yield "cost in all", format_usd(first.cost_usd), format_usd(second.cost_usd), "", ""
    yield "errors", _format_errors(first), _format_errors(second), "", ""


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
    kinds = {"option": differs.options, "prompt": differs.prompts, "tool": differs.tools}
    found = [
        f"{kind} {name}: {shorten_line(change, MAX_CHARS)}"
        for kind, changed in kinds.items()
        for name, change in changed.items()
    ]
    yield from found or [_NOTHING]


def shorten_differences(pair: RunComparison, runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield the same in a few lines: system, model, prompts, tools, scorer, and the number of other settings."""
    first, second = (next(run for run in runs if run.label == label) for label in (pair.against, pair.run))
    differs = pair.differs
    named = {name: change for name in _NAMED_OPTIONS if (change := _describe_change(first, second, name))}
    found = [f"{name}: {change}" for name, change in named.items()]
    if differs.prompts:
        found.append(f"prompts that differ: {', '.join(differs.prompts)}")
    found += [f"tools of {agent}: {change}" for agent, change in differs.tools.items()]
    listed = {key for name in named for key in _NAMED_OPTIONS[name]}
    listed |= {f"system.agents.{agent}.tools" for agent in differs.tools}
    others = {key: change for key, change in differs.options.items() if key not in listed}
    found += [f"{key}: {others.pop(key)}" for key in list(others) if key.startswith("scorer.")]
    if len(others) > _MAX_SETTINGS:
        found.append(f"{len(others)} more settings differ: --settings")
    else:
        found += [f"option {key}: {change}" for key, change in others.items()]
    yield from (shorten_line(each, MAX_CHARS) for each in found or [_NOTHING])


def _describe_change(first: ComparedRun, second: ComparedRun, name: str) -> str | None:
    before, now = (getattr(run, name) or "none" for run in (first, second))
    return f"{before} → {now}" if before != now else None


def build_flips_table(pair: RunComparison, width: int) -> Table:
    """Return a row for each of the samples with the largest difference, for a terminal of so many columns."""
    flips = pair.comparison.flips
    short = shorten_ids([flip.id for flip in flips])
    cut = any(id != shown for id, shown in short.items())
    legend = describe_marks(pair)
    caption = f"{legend}; whole ids: --json FILE" if cut else legend
    table = Table(title=Text("questions that flipped"), caption=caption, caption_justify="left")
    optional = [name for name, least in (("asked", _FOR_QUESTION), ("level", _FOR_LEVEL)) if width >= least]
    table.add_column("question", no_wrap=True)  # ids that are cut look alike
    for heading in (pair.against, pair.run, "gold", *optional):
        table.add_column(heading)
    for flip in flips[:MAX_FLIPS]:
        optional_cells = {"asked": shorten_line(flip.question, QUESTION_CHARS), "level": flip.level or ""}
        answers = map(_join_epochs, describe_answers(flip))
        cells = (short[flip.id], *answers, flip.target, *(optional_cells[name] for name in optional))
        table.add_row(*map(build_cell, cells))
    return table


def describe_marks(pair: RunComparison) -> str:
    """Return the meaning of the marks before the answers."""
    return _LEGEND if pair.comparison.metric == ACCURACY else _GRADED_LEGEND


def build_cell(text: str) -> Text:
    """Return the beginning of a text, in as many lines as its column needs."""
    return Text(shorten_line(text, SHORT_CHARS), overflow="fold")


def shorten_ids(ids: Sequence[str]) -> dict[str, str]:
    """Return each id → its shortest unambiguous prefix, of 8 characters or more, of one length for all."""
    chars = next(n for n in count(MIN_ID_CHARS) if len({each[:n] for each in ids}) == len(set(ids)))
    return {each: each[:chars] for each in ids}


def _join_epochs(answers: Sequence[str]) -> str:
    """Return `✓✗✓ 17, 18`: the verdicts of all epochs, then the answers that differ."""
    marks, texts = zip(*(each.split(" ", 1) for each in answers), strict=True)
    return f"{''.join(marks)} {', '.join(dict.fromkeys(texts))}"


def _build_row(
    name: str,
    means: MeanDifference | None,
    format_amount: Callable[[float], str],
    format_change: Callable[[float], str],
    unit: str = "",
) -> Numbers:
    if means is None:
        return name, NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE, ""
    interval = _format_interval(means.ci95, format_change)
    change = format_change(means.difference) + unit
    return name, format_amount(means.first), format_amount(means.second), change, interval


def _format_interval(bounds: Interval | None, format_bound: Callable[[float], str]) -> str:
    return " to ".join(map(format_bound, bounds)) if bounds else NOT_AVAILABLE


def _format_errors(side: Side) -> str:
    return ", ".join(f"{name} {count}" for name, count in side.errors_by_class.items()) or "none"


def _build_numbers_table(pair: RunComparison, width: int) -> Table:
    run, against = pair.run, pair.against
    table = Table(title=Text(f"{run} compared with {against}"), padding=(0, 1) if width >= _FOR_PADDING else 0)
    table.add_column("", no_wrap=True)
    for heading in (against, run, f"{run} - {against}", "95% interval"):
        table.add_column(heading, justify="right", overflow="fold")
    for row in list_numbers(pair):
        if row[0] != _SIDES_INTERVAL or width >= _FOR_SIDES_INTERVAL:
            table.add_row(*map(Text, row))
    return table
