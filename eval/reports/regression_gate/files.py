"""Files of a verdict: Markdown for a pull request, JUnit XML for a build server, JSON for scripts.

    write_markdown(Path("comment.md"), result, notes)
    write_junit(Path("gate.xml"), result)
    write_json(Path("gate.json"), result)               # gate.schema.json

None of them holds a question, an answer or a target. Names and ids are data: in Markdown they are code, so that they
neither format the page nor notify anybody.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from eval.analysis.comparison.regression_gate import GatedRun, GateResult
from eval.analysis.statistics.regression import FAIL, INCONCLUSIVE, PASS
from eval.reports.regression_gate.sentences import (
    describe_basis,
    describe_metric,
    describe_undecided,
    describe_verdict,
    list_cells,
    list_headings,
    name_runs,
)
from eval.runs.folder import write_lines
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import shorten_line
from mas.simulation import SIMULATED_NOTICE

MAX_IDS = 10  # of the questions that got worse
MAX_CHARS = 80  # of a name or an id
_MAX_LINE_CHARS = 1_000
_MARKS = {PASS: "✅", FAIL: "❌", INCONCLUSIVE: "❔"}
_NOT_XML = re.compile("[\ufffe\uffff]")
_HOW_TO_READ = (
    "pass: the interval lies above the loss that is allowed",
    "fail: it lies below, and equal programs would hardly ever differ so much",
    "inconclusive: it holds the limit, so these answers prove neither",
    "answers in error count as wrong; cost and time are of all attempts, those in error included",
)


def write_markdown(path: Path, result: GateResult, notes: Sequence[str] = ()) -> None:
    """Write the comment for a pull request.

    Raises:
        OSError: it cannot be written.
    """
    with write_atomically(path) as file:
        file.write(format_markdown(result, notes))


def format_markdown(result: GateResult, notes: Sequence[str] = ()) -> str:
    """Return the comment; `notes` are facts about the runs without which the numbers cannot be read."""
    headings = list_headings(result)
    lines = [f"### {_MARKS[result.verdict]} {_escape(describe_verdict(result).replace('gate', 'Gate', 1))}", ""]
    if result.simulated:
        lines += [f"**{SIMULATED_NOTICE}**", ""]
    lines += [f"| {' | '.join(headings)} |", "|---|---|" + "---:|" * (len(headings) - 2)]
    lines += [
        f"| {' | '.join((f'{_MARKS[each.verdict]} {each.verdict}', *map(_escape, list_cells(each))))} |"
        for each in result.metrics
    ]
    lines += ["", *(f"- {_escape(line)}" for line in (*describe_undecided(result), *describe_basis(result)))]
    if result.worse:
        more = len(result.worse) - MAX_IDS
        ids = ", ".join(map(format_code, result.worse[:MAX_IDS]))
        lines.append(f"- largest losses: {ids}{f' and {more} more' if more > 0 else ''}")
    lines += ["", *(f"- {name}: {_describe_run(run)}" for name, run in name_runs(result))]
    facts = [*_HOW_TO_READ, *(f"note (A is base, B is new): {note}" for note in notes)]
    lines += ["", "<details><summary>How to read this</summary>", "", "```text", *map(_clean_block, facts), "```", ""]
    return "\n".join([*lines, "</details>", ""])


def format_code(text: str) -> str:
    """Return data as Markdown's inline code, on one line: it cannot end the code, a table's cell or the page."""
    return f"`{shorten_line(text, MAX_CHARS).replace('`', chr(39)).replace('|', '¦') or ' '}`"


def _clean_block(text: str) -> str:
    return shorten_line(text, _MAX_LINE_CHARS).replace("`", "'")


def _escape(text: str) -> str:
    """Return a sentence of ours, in which nothing comes from a run but numbers, as plain Markdown text."""
    return re.sub(r"([\\`*_{}\[\]<>#|~@&])", r"\\\1", shorten_line(text, _MAX_LINE_CHARS))


def _describe_run(run: GatedRun) -> str:
    parts = {"system": run.system, "model": run.model, "prompts": run.prompts or "none"}
    named = ", ".join(f"{name} {format_code(value)}" for name, value in parts.items() if value)
    return f"{format_code(run.name)}{f' ({named})' if named else ''}"


def write_junit(path: Path, result: GateResult) -> None:
    """Write a test suite with one case per metric; an inconclusive one is an error, so that no server calls it passed.

    Raises:
        OSError: it cannot be written.
    """
    verdicts = [each.verdict for each in result.metrics]
    counts = {"tests": len(verdicts), "failures": verdicts.count(FAIL), "errors": verdicts.count(INCONCLUSIVE)}
    values = {"name": "eval/compare.py --gate", **{name: str(count) for name, count in counts.items()}}
    root = ElementTree.Element("testsuites", values)
    suite = ElementTree.SubElement(root, "testsuite", {**values, "skipped": "0"})
    properties = ElementTree.SubElement(suite, "properties")
    for name, run in name_runs(result):
        ElementTree.SubElement(properties, "property", {"name": name, "value": _clean_xml(run.folder)})
    for each in result.metrics:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "gate", "name": each.metric, "time": "0"})
        sentence = _clean_xml(describe_metric(each, result))
        if each.verdict == PASS:
            ElementTree.SubElement(case, "system-out").text = sentence
            continue
        kind, reason = ("failure", "regression") if each.verdict == FAIL else ("error", INCONCLUSIVE)
        found = ElementTree.SubElement(case, kind, {"type": reason, "message": sentence})
        found.text = "\n".join(map(_clean_xml, describe_basis(result)))
    ElementTree.indent(root)
    with write_atomically(path) as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n")


def write_json(path: Path, result: GateResult) -> None:
    """Write all numbers of the verdict, as `gate.schema.json` describes them.

    Raises:
        OSError: it cannot be written.
    """
    write_lines(path, [json.dumps(result.to_dict(), indent=2, allow_nan=False)])


def _clean_xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", shorten_line(text, _MAX_LINE_CHARS))
