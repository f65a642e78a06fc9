"""The gate's files: what a build server counts, and that names and ids cannot format or break them."""

import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from eval.analysis.comparison.regression_gate import GatedRun, GateResult
from eval.reports.regression_gate.files import (
    MAX_IDS,
    format_code,
    format_markdown,
    write_json,
    write_junit,
    write_markdown,
)
from eval.reports.regression_gate.sentences import describe_basis, describe_metric
from mas.simulation import SIMULATED_NOTICE
from tests.eval.reports.regression_gate.test_sentences import METRIC, RUN, result

FAILED, PASSED = replace(METRIC, verdict="fail", metric="f1"), replace(METRIC, verdict="pass", metric="cost")


def junit(tmp_path: Path, made: GateResult) -> ElementTree.Element:
    write_junit(tmp_path / "gate.xml", made)
    return ElementTree.parse(tmp_path / "gate.xml").getroot()


def test_a_build_server_counts_an_undecided_metric_as_an_error(tmp_path: Path) -> None:
    root = junit(tmp_path, result(METRIC, FAILED, FAILED, PASSED, verdict="fail"))
    for element in (root, root[0]):
        assert (element.get("tests"), element.get("failures"), element.get("errors")) == ("4", "2", "1")
    assert root[0].get("skipped") == "0"
    cases = root.findall(".//testcase")
    assert [(each.get("name"), each[0].tag, each[0].get("type")) for each in cases] == [
        ("score", "error", "inconclusive"),
        ("f1", "failure", "regression"),
        ("f1", "failure", "regression"),
        ("cost", "system-out", None),
    ]
    assert cases[0][0].get("message") and cases[0][0].text and cases[3][0].text
    assert {each.get("classname") for each in cases} == {"gate"}


def test_a_folder_s_name_cannot_break_the_xml(tmp_path: Path) -> None:
    odd = GatedRun("a", 'x"<&>\ufffe\x1b[31m', "1", "toy", "m", None, 30, 0)
    root = junit(tmp_path, result(base=odd))
    values = [each.get("value") for each in root.findall(".//property")]
    assert len(values) == 2 and values[0] is not None
    assert values[0].startswith('x"<&>') and "\ufffe" not in values[0] and "\x1b" not in values[0]


def test_the_json_is_the_verdict(tmp_path: Path) -> None:
    write_json(tmp_path / "gate.json", result(FAILED, verdict="fail"))
    found = json.loads((tmp_path / "gate.json").read_text())
    assert (found["version"], found["verdict"], found["metrics"][0]["metric"]) == (1, "fail", "f1")


def lines(*metrics: Any, notes: Any = (), **changes: Any) -> list[str]:
    return format_markdown(result(*metrics, **changes), notes).splitlines()


def test_the_comment_begins_with_the_verdict_and_its_table() -> None:
    found = lines(METRIC, FAILED, PASSED, verdict="fail")
    assert found[0].startswith("### ❌ Gate failed: ") and found[1] == ""
    assert found[2].startswith("| ") and found[3].startswith("|---|---|---:|")
    assert found[2].count("|") == found[3].count("|")
    assert [line.split(" | ")[0] for line in found[4:7]] == ["| ❔ inconclusive", "| ❌ fail", "| ✅ pass"]
    assert found[7] == "" and found[-1] == "</details>"


def test_the_file_is_the_comment(tmp_path: Path) -> None:
    write_markdown(tmp_path / "a.md", result(), ["a note"])
    assert (tmp_path / "a.md").read_text() == format_markdown(result(), ["a note"])


def test_a_simulation_is_called_one() -> None:
    assert f"**{SIMULATED_NOTICE}**" in lines(simulated=True) and SIMULATED_NOTICE not in "".join(lines())


def test_the_first_losses_are_named_and_the_others_counted() -> None:
    ids = tuple(f"q{n}" for n in range(MAX_IDS + 2))
    (found,) = (line for line in lines(worse=ids) if line.startswith("- largest losses"))
    assert found.endswith(f"`q{MAX_IDS - 1}` and 2 more")
    (found,) = (line for line in lines(worse=ids[:MAX_IDS]) if line.startswith("- largest losses"))
    assert found.endswith(f"`q{MAX_IDS - 1}`")
    assert not any(line.startswith("- largest losses") for line in lines(worse=()))


def test_the_runs_are_described_as_far_as_they_are_known() -> None:
    found = lines(base=replace(RUN, name="old", prompts="tuned"), new=replace(RUN, name="new", model="", system=""))
    told = [line.partition(": ")[2] for line in found if "`old`" in line or "`new`" in line]
    assert told == ["`old` (system `toy`, model `m`, prompts `tuned`)", "`new` (prompts `none`)"]


def test_notes_are_data_in_a_block_that_they_cannot_end() -> None:
    found = lines(notes=["```\n<script>"])
    (note,) = (line for line in found if line.startswith("note (A is base, B is new): "))
    assert "`" not in note and found[-3:] == ["```", "", "</details>"]


def test_code_is_one_line_that_ends_where_it_ends() -> None:
    assert format_code("a`b|c\nd") == "`a'b¦c d`" and format_code("") == "` `"
    assert len(format_code("x" * 500)) <= 82


def test_no_number_of_the_json_is_one_that_json_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "gate.json", result(replace(METRIC, lower=float("-inf"))))


def test_the_junit_file_is_the_same_whole(tmp_path: Path) -> None:
    made = result(FAILED, PASSED, verdict="fail", base=replace(RUN, folder="old"), new=replace(RUN, folder="new"))
    write_junit(tmp_path / "gate.xml", made)
    fail, passed = (describe_metric(each, made) for each in (FAILED, PASSED))
    basis = "\n".join(describe_basis(made))
    counts = 'name="eval/compare.py --gate" tests="2" failures="1" errors="0"'
    assert html.unescape((tmp_path / "gate.xml").read_text("utf-8")) == (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {counts}>\n'
        f'  <testsuite {counts} skipped="0">\n    <properties>\n      <property name="base" value="old" />\n'
        '      <property name="new" value="new" />\n    </properties>\n'
        '    <testcase classname="gate" name="f1" time="0">\n'
        f'      <failure type="regression" message="{fail}">{basis}</failure>\n    </testcase>\n'
        '    <testcase classname="gate" name="cost" time="0">\n'
        f"      <system-out>{passed}</system-out>\n    </testcase>\n  </testsuite>\n</testsuites>\n"
    )


def test_the_comment_is_the_same_whole() -> None:
    made = result(FAILED, verdict="fail", worse=("q1", "q|2"), simulated=True)
    assert format_markdown(made, ["a `note`"]).splitlines() == [
        "### ❌ Gate failed: accuracy worse than allowed",
        "",
        f"**{SIMULATED_NOTICE}**",
        "",
        "| verdict | metric | base | new | change | 90% interval | allowed |",
        "|---|---|---:|---:|---:|---:|---:|",
        "| ❌ fail | accuracy | 50.0% | 25.0% | -25.0 points | -50.0 to +12.5 | down to -2.0 |",
        "",
        *(f"- {line}" for line in describe_basis(made)),
        "- largest losses: `q1`, `q¦2`",
        "",
        "- base: `a` (system `toy`, model `m`, prompts `none`)",
        "- new: `a` (system `toy`, model `m`, prompts `none`)",
        "",
        "<details><summary>How to read this</summary>",
        "",
        "```text",
        "pass: the interval lies above the loss that is allowed",
        "fail: it lies below, and equal programs would hardly ever differ so much",
        "inconclusive: it holds the limit, so these answers prove neither",
        "answers in error count as wrong; cost and time are of all attempts, those in error included",
        "note (A is base, B is new): a 'note'",
        "```",
        "",
        "</details>",
    ]
    assert format_markdown(made).endswith("</details>\n")
