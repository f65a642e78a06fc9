"""Runs compared, and the verdict of the regression gate: in the terminal, and the verdict as files.

    print_comparison(compare_read_runs(runs, intersection=False), Console())
    print_gate(result, Console())
    write_gate_files(result, notes, markdown=Path("comment.md"), json_file=Path("gate.json"))

Markdown is for a pull request, JSON for scripts. Neither holds a question, an answer or a target. Names and ids are
data: in Markdown they are code, so that they neither format the page nor notify anybody.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.text import Text

from eval.analysis.comparison.compare_runs import ComparisonResult, ReadRun, RunComparison
from eval.analysis.comparison.comparison import Side
from eval.analysis.comparison.regression_gate import FAIL, INCONCLUSIVE, PASS, GateResult, JudgedMetric
from eval.analysis.statistics.paired_tests import MeanDifference
from eval.analysis.summary.measures import Answer
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
from eval.runs.folder import write_lines
from eval.scorers.score import ACCURACY
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE

MAX_FLIPS = 20  # --html and --json have all
QUESTION_CHARS = 60  # --html has whole questions and answers
SHORT_CHARS = 200  # of an answer, a reason
_ID_CHARS = 12  # of the id of a question; --json has all of it
MAX_CHARS = 240  # of a setting
_MAX_SETTINGS = 10  # that are listed; --html and --json have all
_SIDES_INTERVAL, _FOR_SIDES_INTERVAL = "its 95% interval", 90  # the row, and the columns of a terminal that it needs
_NOTHING = "options, prompts and tools are the same"
MAX_IDS = 10  # of the questions that got worse
_MAX_NAME_CHARS = 80  # of a name or an id in Markdown
_MAX_LINE_CHARS = 1_000
_STYLES = {PASS: "bold green", FAIL: "bold red", INCONCLUSIVE: "bold yellow"}
_MARKS = {PASS: "✅", FAIL: "❌", INCONCLUSIVE: "❔"}
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
    facts, epochs = run.to_dict(), run.answers.epochs
    times = f", {epochs} answers per question" if epochs > 1 else ""
    parts = f"system {facts['system']}, model {facts['model']}, prompts {facts['prompts'] or 'none'}"
    return f"{run.label}: {run.name} ({parts}{times})"


def build_numbers(pair: RunComparison) -> Table:
    """Return a pair's numbers: of the first, of the second, difference with its interval."""
    comparison, rows = pair.comparison, list[Sequence[str]]()
    first, second = comparison.first, comparison.second

    def add_means(name: str, means: MeanDifference | None, form: Format, form_change: Format, unit: str = "") -> None:
        if means is None:
            rows.append((name, NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE, ""))
        else:
            change, bounds = form_change(means.difference) + unit, format_interval(means.ci95, form_change)
            rows.append((name, form(means.first), form(means.second), change, bounds))

    def add_sides(name: str, read: Callable[[Side], str]) -> None:
        rows.append((name, read(first), read(second), "", ""))

    score = comparison.score
    scores = MeanDifference(score.n_questions, first.score, second.score, score.difference, score.ci95)
    add_means(comparison.metric, scores, format_percent, format_points, " points")
    add_sides(_SIDES_INTERVAL, lambda side: format_interval(side.score_ci95))
    if comparison.metric != ACCURACY:
        add_sides("fully right", lambda side: format_percent(side.accuracy))
    add_means("unreadable", comparison.unreadable, format_percent, format_points, " points")
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
    yield from (f"{name}: {shorten_line(change, MAX_CHARS)}" for name, change in pair.differs.items())
    if not pair.differs:
        yield _NOTHING
    if any(name.startswith("prompt ") for name in pair.differs):
        yield "the texts of prompts: python optimize/diff.py SET SET"


def _build_flips(pair: RunComparison) -> Table:
    """Return a row for each of the samples with the largest difference."""
    headings = ("question", pair.against, pair.run, "gold", "asked")
    rows = []
    for flip in pair.comparison.flips[:MAX_FLIPS]:
        cells = []
        for answers in (flip.first, flip.second):
            # The verdicts of all epochs, then the answers that differ: ✓✗✓ 17, 18.
            marks, texts = zip(*map(_describe_answer, answers), strict=True)
            cells.append(f"{''.join(marks)} {', '.join(dict.fromkeys(texts))}")
        cells += [flip.target, shorten_line(flip.question, QUESTION_CHARS)]
        rows.append([shorten_line(flip.id, _ID_CHARS), *(shorten_line(each, SHORT_CHARS) for each in cells)])
    return Table(headings, rows, left=headings)


def _describe_answer(answer: Answer) -> tuple[str, str]:
    if answer.error_class:
        return "!", answer.error_class
    return "✓" if answer.correct else "✗" if answer.value == 0 else "◐", answer.answer or ""


def print_gate(result: GateResult, console: Console) -> None:
    """Print the table, what the verdict rests on, and the verdict as the last line."""
    console.print(_build_gate_table(result).build("gate: B, the new run, compared with A, its base", whole=2))
    for line in _list_remarks(result):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(describe_gate(result), style=_STYLES[result.verdict]), soft_wrap=True)


def write_gate_files(
    result: GateResult, notes: Sequence[str] = (), json_file: Path | None = None, markdown: Path | None = None
) -> None:
    """Write the files that are named; `notes` are facts without which the numbers cannot be read.

    Raises:
        OSError: one cannot be written.
    """
    if json_file:
        write_lines(json_file, [json.dumps(result.to_dict(), indent=2, allow_nan=False)])
    if markdown:
        with write_atomically(markdown) as file:
            file.writelines(f"{line}\n" for line in _list_markdown(result, notes))


def _list_markdown(result: GateResult, notes: Sequence[str]) -> Iterator[str]:
    yield f"### {_MARKS[result.verdict]} {_escape(describe_gate(result).replace('gate', 'Gate', 1))}"
    yield from ["", f"**{SIMULATED_NOTICE}**"] if result.simulated else []
    table = _build_gate_table(result)
    marked = zip(result.metrics, table.rows, strict=True)
    rows = [(f"{_MARKS[each.verdict]} {each.verdict}", *row[1:]) for each, row in marked]
    yield from ("", Table(table.headings, rows, table.left).render_markdown(), "")
    yield from (f"- {_escape(line)}" for line in _list_remarks(result))
    if result.worse:
        more = f" and {n} more" if (n := len(result.worse) - MAX_IDS) > 0 else ""
        yield f"- largest losses: {', '.join(map(_format_code, result.worse[:MAX_IDS]))}{more}"
    yield from ("", f"- base: {_describe_gated_run(result.base)}", f"- new: {_describe_gated_run(result.new)}", "")
    if notes:
        lines = (shorten_line(f"{note} (A is base, B is new)", _MAX_LINE_CHARS).replace("`", "'") for note in notes)
        yield from ("```text", *lines, "```")


def describe_gate(result: GateResult) -> str:
    """Return the verdict in one sentence."""
    names = [each.name for each in result.metrics if each.verdict == result.verdict]
    return _SENTENCES[result.verdict].format(", ".join(names[:-1]) + (" and " if names[:-1] else "") + names[-1])


def _list_remarks(result: GateResult) -> Iterator[str]:
    """Yield why a metric is not decided, and what the verdict rests on."""
    for each in result.metrics:
        if each.verdict == INCONCLUSIVE:
            yield f"{each.name}: {_explain(each, result.margin)}"
    questions = format_count(result.n_questions, "question")
    yield f"{questions}: score worse on {len(result.worse)}, better on {len(result.better)}"
    if result.n_left_out:
        yield f"{format_count(result.n_left_out, 'question')} left out: prompts were tuned on them"
    runs = {"base": result.base, "new": result.new}
    if errors := [f"{name} {run['n_errors']} of {run['n_answers']}" for name, run in runs.items() if run["n_errors"]]:
        yield f"answers in error, which count as wrong: {', '.join(errors)}"
    several = f", shared by {len(result.metrics)} metrics (Bonferroni)" if len(result.metrics) > 1 else ""
    yield f"alpha {result.alpha:g}, one-sided{several}"


def _explain(judged: JudgedMetric, margin: float) -> str:
    if judged.by_chance:
        return "worse than allowed, but equal programs might well differ so much"
    if not margin:
        return "with a margin of 0 only a gain can pass; allow a loss with --margin"
    return "too few questions to decide, or a change that is too close to the limit"


def _describe_gated_run(run: Mapping[str, object]) -> str:
    named = [f"{name} {_format_code(str(run[name] or 'none'))}" for name in ("system", "model", "prompts")]
    return f"{_format_code(str(run['name']))} ({', '.join(named)})"


def _build_gate_table(result: GateResult) -> Table:
    interval = f"{100 * (1 - 2 * result.level):.3g}% interval"
    headings = ("verdict", "metric", "base", "new", "change", interval, "allowed")
    rows = []
    for each in result.metrics:
        change, low, high, allowed = map(format_points, (each.difference, each.lower, each.upper, -result.margin))
        shares = (format_percent(each.base), format_percent(each.new), f"{change} points")
        rows.append((each.verdict, each.name, *shares, f"{low} to {high}", f"down to {allowed}"))
    return Table(headings, rows, left=("metric",))


def _format_code(text: str) -> str:
    """Return data as Markdown's inline code, on one line: it cannot end the code, a table's cell or the page."""
    return f"`{shorten_line(text, _MAX_NAME_CHARS).replace('`', chr(39)).replace('|', '¦') or ' '}`"


def _escape(text: str) -> str:
    """Return a sentence of ours, in which nothing comes from a run but numbers, as plain Markdown text."""
    return re.sub(r"([\\`*_{}\[\]<>#|~@&])", r"\\\1", shorten_line(text, _MAX_LINE_CHARS))
