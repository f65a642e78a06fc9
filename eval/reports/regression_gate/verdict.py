"""Verdict of the regression gate, `eval/compare.py --gate`: in the terminal, and as files.

    print_gate(result, Console())
    write_files(result, notes, markdown=Path("comment.md"), json_file=Path("gate.json"))

Markdown is for a pull request, JSON for scripts. Neither holds a question, an answer or a target. Names and ids are
data: in Markdown they are code, so that they neither format the page nor notify anybody.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.text import Text

from eval.analysis.comparison.regression_gate import COST, GateResult, JudgedMetric
from eval.analysis.statistics.regression import FAIL, INCONCLUSIVE, PASS
from eval.execution.console import Console
from eval.reports.formats import Table, format_percent, format_points
from eval.runs.folder import write_lines
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE

MAX_IDS = 10  # of the questions that got worse
MAX_CHARS = 80  # of a name or an id
_MAX_LINE_CHARS = 1_000
_STYLES = {PASS: "bold green", FAIL: "bold red", INCONCLUSIVE: "bold yellow"}
_MARKS = {PASS: "✅", FAIL: "❌", INCONCLUSIVE: "❔"}
_SENTENCES = {
    PASS: "gate passed: {} no worse than allowed",
    FAIL: "gate failed: {} worse than allowed",
    INCONCLUSIVE: "gate inconclusive: these answers neither show nor rule out a loss in {}",
}
_DECIDES = "would pass in 80 of 100 comparisons (an estimate from the spread of the differences seen)"


def print_gate(result: GateResult, console: Console) -> None:
    """Print the table, what would decide, and the verdict as the last line."""
    console.print(_build_table(result).build("gate: B, the new run, compared with A, its base", whole=2))
    for line in _list_remarks(result):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(describe_verdict(result), style=_STYLES[result.verdict]), soft_wrap=True)


def write_files(
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
    yield f"### {_MARKS[result.verdict]} {_escape(describe_verdict(result).replace('gate', 'Gate', 1))}"
    yield from ["", f"**{SIMULATED_NOTICE}**"] if result.simulated else []
    table = _build_table(result)
    marked = zip(result.metrics, table.rows, strict=True)
    rows = [(f"{_MARKS[each.verdict]} {each.verdict}", *row[1:]) for each, row in marked]
    yield from ("", Table(table.headings, rows, table.left).render_markdown(), "")
    yield from (f"- {_escape(line)}" for line in _list_remarks(result))
    if result.worse:
        more = f" and {n} more" if (n := len(result.worse) - MAX_IDS) > 0 else ""
        yield f"- largest losses: {', '.join(map(_format_code, result.worse[:MAX_IDS]))}{more}"
    yield from ("", f"- base: {_describe_run(result.base)}", f"- new: {_describe_run(result.new)}", "")
    if notes:
        lines = (shorten_line(f"{note} (A is base, B is new)", _MAX_LINE_CHARS).replace("`", "'") for note in notes)
        yield from ("```text", *lines, "```")


def describe_verdict(result: GateResult) -> str:
    """Return the verdict in one sentence."""
    names = [each.name for each in result.metrics if each.verdict == result.verdict]
    return _SENTENCES[result.verdict].format(", ".join(names[:-1]) + (" and " if names[:-1] else "") + names[-1])


def _list_remarks(result: GateResult) -> Iterator[str]:
    """Yield what would decide each metric that is not decided, and what the verdict rests on."""
    yield from (f"{each.name}: {_explain(each)}" for each in result.metrics if each.verdict == INCONCLUSIVE)
    yield from _describe_basis(result)


def _explain(judged: JudgedMetric) -> str:
    needed, n = judged.questions_needed, judged.n_questions
    if needed is None:
        return "with a margin of 0 only a gain can pass; allow a loss with --margin"
    why = "the change is too close to the limit" if needed <= n else "too few answers to decide"
    if judged.by_chance:
        why = "worse than allowed, but equal programs might well differ so much"
    unit: int = 10 ** max(len(str(needed)) - 2, 0)  # two digits count
    return f"{why}; if nothing has changed, about {-(-needed // unit) * unit:,} questions (now {n:,}) {_DECIDES}"


def _describe_basis(result: GateResult) -> Iterator[str]:
    """Yield sentences about what the verdict rests on."""
    questions = format_count(result.n_questions, "question")
    yield f"{questions}: score worse on {len(result.worse)}, better on {len(result.better)}"
    if result.n_left_out:
        yield f"{format_count(result.n_left_out, 'question')} left out: prompts were tuned on them"
    runs = {"base": result.base, "new": result.new}
    if errors := [f"{name} {run['n_errors']} of {run['n_answers']}" for name, run in runs.items() if run["n_errors"]]:
        yield f"answers in error, which count as wrong: {', '.join(errors)}"
    several = f", shared by {len(result.metrics)} metrics (Bonferroni)" if len(result.metrics) > 1 else ""
    yield f"alpha {result.alpha:g}, one-sided{several}"


def _describe_run(run: Mapping[str, object]) -> str:
    named = [f"{name} {_format_code(str(run[name] or 'none'))}" for name in ("system", "model", "prompts")]
    return f"{_format_code(str(run['name']))} ({', '.join(named)})"


def _name_interval(result: GateResult) -> str:
    return f"{100 * result.confidence:.3g}% interval"


def _build_table(result: GateResult) -> Table:
    headings = ("verdict", "metric", "base", "new", "change", _name_interval(result), "allowed")
    return Table(headings, list(map(_list_cells, result.metrics)), left=("metric",))


def _list_cells(judged: JudgedMetric) -> list[str]:
    """Return verdict, name, both values, change, its interval, and the change that is allowed."""
    form: Callable[[float], str] = format_percent
    if judged.relative:
        form = "${:,.5f}".format if judged.metric == COST else "{:,.2f} s".format
        change, low, high = (f"{each:+.1%}" for each in (judged.difference, judged.lower, judged.upper))
        allowed = f"up to {judged.margin:+.1%}"
    else:
        change, low, high = map(format_points, (judged.difference, judged.lower, judged.upper))
        change, allowed = f"{change} points", f"down to {format_points(-judged.margin)}"
    return [judged.verdict, judged.name, form(judged.base), form(judged.new), change, f"{low} to {high}", allowed]


def _format_code(text: str) -> str:
    """Return data as Markdown's inline code, on one line: it cannot end the code, a table's cell or the page."""
    return f"`{shorten_line(text, MAX_CHARS).replace('`', chr(39)).replace('|', '¦') or ' '}`"


def _escape(text: str) -> str:
    """Return a sentence of ours, in which nothing comes from a run but numbers, as plain Markdown text."""
    return re.sub(r"([\\`*_{}\[\]<>#|~@&])", r"\\\1", shorten_line(text, _MAX_LINE_CHARS))
