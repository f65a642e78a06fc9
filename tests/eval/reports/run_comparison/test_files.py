"""Files of a comparison: which are written, with and without a gate."""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.compare_runs import compare_read_runs, read_runs
from eval.reports.run_comparison.files import write_files
from tests.eval.reports.regression_gate.test_sentences import result
from tests.eval.stored_run import answered, stored_run


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Writes the files that are named, and returns their texts."""

    def write(*names: str, gated: bool = False) -> dict[str, str]:
        runs = read_runs([stored_run(tmp_path / each, [answered("a", "17")]) for each in "xy"])
        compared = compare_read_runs(runs, intersection=False)
        compared = replace(compared, comparisons=[replace(compared.comparisons[0], notes=("a note",))])
        folder = tmp_path / "written"
        folder.mkdir()
        given = {each: folder / each if each in names else None for each in ("html", "json", "markdown", "junit")}
        write_files(Namespace(**given), compared, runs, result() if gated else None)
        return {each.name: each.read_text("utf-8") for each in folder.iterdir()}

    return write


def test_without_a_gate_the_json_is_that_of_the_comparison_and_the_gates_files_are_not_written(written: Any) -> None:
    files = written("html", "json", "markdown", "junit")
    assert files.keys() == {"html", "json"}
    data = json.loads(files["json"])
    assert [each["label"] for each in data["runs"]] == ["A", "B"] and data["comparisons"][0]["notes"] == ["a note"]
    assert files["json"].startswith('{\n  "') and files["json"].endswith("}\n")
    assert "<title>x and y</title>" in files["html"]


def test_with_a_gate_the_json_is_its_verdict_and_the_comment_has_the_notes(written: Any) -> None:
    files = written("html", "json", "markdown", "junit", gated=True)
    assert files.keys() == {"html", "json", "markdown", "junit"}
    assert json.loads(files["json"])["verdict"] == "inconclusive"
    assert "note (A is base, B is new): a note" in files["markdown"]
    assert "<testsuites" in files["junit"] and "<title>x and y</title>" in files["html"]


def test_only_what_was_asked_for_is_written(written: Any) -> None:
    assert written(gated=True) == {}
