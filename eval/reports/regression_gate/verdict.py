"""Verdict of the regression gate, `eval/compare.py --gate`: in the terminal, and as files.

    print_gate(result, Console())
    write_files(result, notes, markdown=Path("comment.md"), junit=Path("gate.xml"), json_file=Path("gate.json"))

Markdown is for a pull request, JUnit XML for a build server, JSON for scripts. No file holds a
question, an answer or a target. Names and ids are data: in Markdown they are code, so that they neither format the page
nor notify anybody.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from rich.text import Text

from eval.analysis.comparison.regression_gate import COST, GatedRun, GateResult, JudgedMetric
from eval.analysis.statistics.regression import FAIL, INCONCLUSIVE, PASS
from eval.execution.console import Console
from eval.reports.formats import format_percent, format_points
from eval.reports.tables import Table
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
_NOT_XML = re.compile("[\ufffe\uffff]")
_DECIDES = "would pass in 80 of 100 comparisons (an estimate from the spread of the differences seen)"
_HOW_TO_READ = (
    "pass: the interval lies above the loss that is allowed",
    "fail: it lies below, and equal programs would hardly ever differ so much",
    "inconclusive: it holds the limit, so these answers prove neither",
    "answers in error count as wrong; cost and time are of all attempts, those in error included",
)


def print_gate(result: GateResult, console: Console) -> None:
    """Print the table, what would decide, and the verdict as the last line."""
    console.print(_build_table(result).build("gate: B, the new run, compared with A, its base", whole=2))
    for line in _list_remarks(result):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(describe_verdict(result), style=_STYLES[result.verdict]), soft_wrap=True)


def write_files(
    result: GateResult,
    notes: Sequence[str] = (),
    json_file: Path | None = None,
    junit: Path | None = None,
    markdown: Path | None = None,
) -> None:
    """Write the files that are named; `notes` are facts without which the numbers cannot be read.

    Raises:
        OSError: one cannot be written.
    """
    if json_file:
        write_lines(json_file, [json.dumps(result.to_dict(), indent=2, allow_nan=False)])
    if junit:
        _write(junit, _render_junit(result))
    if markdown:
        _write(markdown, _render_markdown(result, notes))


def _write(path: Path, text: str) -> None:
    with write_atomically(path) as file:
        file.write(text)


def _render_markdown(result: GateResult, notes: Sequence[str]) -> str:
    table = _build_table(result)
    rows = [(f"{_MARKS[each.verdict]} {each.verdict}", *_list_cells(each)[1:]) for each in result.metrics]
    worse = ", ".join(map(_format_code, result.worse[:MAX_IDS]))
    more = len(result.worse) - MAX_IDS
    facts = [*_HOW_TO_READ, *(f"note (A is base, B is new): {note}" for note in notes)]
    lines = [
        f"### {_MARKS[result.verdict]} {_escape(describe_verdict(result).replace('gate', 'Gate', 1))}",
        *(["", f"**{SIMULATED_NOTICE}**"] if result.simulated else []),
        *("", Table(table.headings, rows, table.left).render_markdown(), ""),
        *(f"- {_escape(line)}" for line in _list_remarks(result)),
        *([f"- largest losses: {worse}{f' and {more} more' if more > 0 else ''}"] if worse else []),
        *("", f"- base: {_describe_run(result.base)}", f"- new: {_describe_run(result.new)}", ""),
        *("<details><summary>How to read this</summary>", "", "```text"),
        *(shorten_line(each, _MAX_LINE_CHARS).replace("`", "'") for each in facts),
        *("```", "", "</details>", ""),
    ]
    return "\n".join(lines)


def _render_junit(result: GateResult) -> str:
    """Return a suite with a case per metric; an inconclusive one is an error, so that no server calls it passed."""
    verdicts = [each.verdict for each in result.metrics]
    counts = {"tests": len(verdicts), "failures": verdicts.count(FAIL), "errors": verdicts.count(INCONCLUSIVE)}
    values = {"name": "eval/compare.py --gate", **{name: str(count) for name, count in counts.items()}}
    root = ElementTree.Element("testsuites", values)
    suite = ElementTree.SubElement(root, "testsuite", {**values, "skipped": "0"})
    for each in result.metrics:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "gate", "name": each.metric, "time": "0"})
        sentence = _clean_xml(_describe_metric(each, result))
        if each.verdict == PASS:
            ElementTree.SubElement(case, "system-out").text = sentence
            continue
        kind, reason = ("failure", "regression") if each.verdict == FAIL else ("error", INCONCLUSIVE)
        found = ElementTree.SubElement(case, kind, {"type": reason, "message": sentence})
        found.text = "\n".join(map(_clean_xml, _describe_basis(result)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def describe_verdict(result: GateResult) -> str:
    """Return the verdict in one sentence."""
    names = {verdict: [each.name for each in result.metrics if each.verdict == verdict] for verdict in _STYLES}
    if result.verdict == FAIL:
        return f"gate failed: {_join(names[FAIL])} worse than allowed"
    if result.verdict == INCONCLUSIVE:
        return f"gate inconclusive: these answers neither show nor rule out a loss in {_join(names[INCONCLUSIVE])}"
    return f"gate passed: {_join(names[PASS])} no worse than allowed"


def _list_remarks(result: GateResult) -> Iterator[str]:
    """Yield what would decide each metric that is not decided, and what the verdict rests on."""
    for each in result.metrics:
        if each.verdict == INCONCLUSIVE:
            yield f"{each.name}: {_explain(each)}"
    yield from _describe_basis(result)


def _explain(judged: JudgedMetric) -> str:
    needed, n = judged.questions_needed, judged.n_questions
    if needed is None:
        return "with a margin of 0 only a gain can pass; allow a loss with --margin"
    why = "the change is too close to the limit" if needed <= n else "too few answers to decide"
    if judged.by_chance:
        why = "worse than allowed, but equal programs might well differ so much"
    return f"{why}; if nothing has changed, about {_round(needed):,} questions (now {n:,}) {_DECIDES}"


def _describe_basis(result: GateResult) -> Iterator[str]:
    """Yield sentences about what the verdict rests on."""
    several = f", shared by {len(result.metrics)} metrics (Bonferroni)" if len(result.metrics) > 1 else ""
    questions = format_count(result.n_questions, "question")
    yield f"{questions}: score worse on {len(result.worse)}, better on {len(result.better)}"
    if result.n_left_out:
        were = "question is" if result.n_left_out == 1 else "questions are"
        yield f"{result.n_left_out} {were} left out: prompts were tuned on them"
    runs = {"base": result.base, "new": result.new}
    errors = [f"{name} {run.n_errors} of {run.n_answers}" for name, run in runs.items() if run.n_errors]
    if errors:
        yield f"answers in error, which count as wrong: {', '.join(errors)}"
    yield f"alpha {result.alpha:g}, one-sided{several}"


def _describe_metric(judged: JudgedMetric, result: GateResult) -> str:
    """Return the numbers of a metric, and what would decide it."""
    _, _, base, new, change, interval, allowed = _list_cells(judged)
    confidence = f"{100 * result.confidence:.3g}% interval"
    numbers = f"{judged.name} {base} → {new}: {change} ({confidence} {interval}; allowed {allowed})"
    return f"{numbers}; {_explain(judged)}" if judged.verdict == INCONCLUSIVE else numbers


def _describe_run(run: GatedRun) -> str:
    parts = {"system": run.system, "model": run.model, "prompts": run.prompts or "none"}
    named = ", ".join(f"{name} {_format_code(value)}" for name, value in parts.items() if value)
    return f"{_format_code(run.name)}{f' ({named})' if named else ''}"


def _build_table(result: GateResult) -> Table:
    interval = f"{100 * result.confidence:.3g}% interval"
    headings = ("verdict", "metric", "base", "new", "change", interval, "allowed")
    return Table(headings, list(map(_list_cells, result.metrics)), left=("metric",))


def _list_cells(judged: JudgedMetric) -> list[str]:
    """Return verdict, name, both values, change, its interval, and the change that is allowed."""
    low, high = judged.lower, judged.upper
    form: Callable[[float], str] = format_percent
    if judged.relative:
        form = "${:,.5f}".format if judged.metric == COST else "{:,.2f} s".format
        change, interval = f"{judged.difference:+.1%}", f"{low:+.1%} to {high:+.1%}"
        allowed = f"up to {judged.margin:+.1%}"
    else:
        change = f"{format_points(judged.difference)} points"
        interval = f"{format_points(low)} to {format_points(high)}"
        allowed = f"down to {format_points(-judged.margin)}"
    return [judged.verdict, judged.name, form(judged.base), form(judged.new), change, interval, allowed]


def _format_code(text: str) -> str:
    """Return data as Markdown's inline code, on one line: it cannot end the code, a table's cell or the page."""
    return f"`{shorten_line(text, MAX_CHARS).replace('`', chr(39)).replace('|', '¦') or ' '}`"


def _escape(text: str) -> str:
    """Return a sentence of ours, in which nothing comes from a run but numbers, as plain Markdown text."""
    return re.sub(r"([\\`*_{}\[\]<>#|~@&])", r"\\\1", shorten_line(text, _MAX_LINE_CHARS))


def _clean_xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", shorten_line(text, _MAX_LINE_CHARS))


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if names[:-1] else "") + names[-1]


def _round(number: int) -> int:
    """Return a number with two digits that count, rounded up."""
    unit: int = 10 ** max(len(str(number)) - 2, 0)
    return -(-number // unit) * unit
