"""Runs compared on a page: what its data say. What a browser makes of them is tested with the other pages."""

from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.compare_runs import compare_read_runs, read_runs
from eval.reports.run_comparison.page import describe_verdict, gather_runs, write_comparison
from tests.eval.stored_run import answered, stored_run
from tests.report_file import ReportFile


def write_page(folder: Path, *runs: list[Any], epochs: int = 1, **facts: Any) -> str:
    folders = [stored_run(folder / f"run{n}", records, epochs=epochs, **facts) for n, records in enumerate(runs)]
    read = read_runs(folders)
    write_comparison(folder / "page.html", compare_read_runs(read))
    return (folder / "page.html").read_text("utf-8")


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return ReportFile(folder / "page.html").rows


def test_questions_on_which_the_runs_disagree_come_first_with_their_outcome(tmp_path: Path) -> None:
    first = [answered("a", "17"), answered("b", "3"), answered("c", "17"), answered("d", "17")]
    second = [answered("a", "17"), answered("b", "3"), answered("c", "4"), answered("d", "17")]
    write_page(tmp_path, first, second)
    rows = read_rows(tmp_path)
    assert [row["id"] for row in rows] == ["c", "a", "b", "d"]
    assert [row["outcome"] for row in rows] == [["better in A", "flips"], ["all right"], ["all wrong"], ["all right"]]
    assert (rows[0]["run A"], rows[0]["run B"], rows[0]["lost A"]) == (["right 17"], ["wrong 4"], [])
    assert rows[0]["lost B"], "its cause"


def test_three_runs_are_a_matrix_of_the_same_questions(tmp_path: Path) -> None:
    runs = [[answered("a", "17"), answered("b", answer)] for answer in ("17", "3", "17")]
    html = write_page(tmp_path, *runs)
    rows = read_rows(tmp_path)
    assert [(row["id"], row["outcome"][0]) for row in rows] == [("b", "runs disagree"), ("a", "all right")]
    assert "3 runs compared" in html
    assert len(rows[0]["answers"]) == 3


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (("17", "17"), "No difference is shown between A and B: +0.0 points of accuracy"),
        (("17", "3"), "B is worse than A: -100.0 points of accuracy (95% interval"),
        (("3", "17"), "B is better than A: +100.0 points of accuracy (95% interval"),
    ],
)
def test_the_verdict_is_one_sentence_with_its_interval(tmp_path: Path, answers: tuple[str, str], sentence: str) -> None:
    runs = [
        stored_run(tmp_path / each, [answered(f"q{n}", text) for n in range(12)])
        for each, text in zip("xy", answers, strict=True)
    ]
    found = next(describe_verdict(compare_read_runs(read_runs(runs)).comparisons[0], 1))
    assert found.startswith(sentence)


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    first = stored_run(tmp_path / "x", [answered("a", evil)])
    second = stored_run(tmp_path / "y", [answered("a", "17")])
    runs = read_runs([first, second])
    write_comparison(tmp_path / "page.html", compare_read_runs(runs))
    html = (tmp_path / "page.html").read_text("utf-8")
    assert [row["id"] for row in read_rows(tmp_path)] == ["a"]
    assert "<script>alert" not in html


def test_an_outcome_of_epochs_is_by_their_mean(tmp_path: Path) -> None:
    both = [answered("a", "17", epoch=1), answered("a", "3", epoch=2)]
    folders = [stored_run(tmp_path / each, both, epochs=2) for each in "xy"]
    runs = read_runs(folders)
    rows, _ = gather_runs(runs, ["a"])
    assert [each["outcome"] for each in rows] == [["equal in part"]]


def test_losses_come_before_gains(tmp_path: Path) -> None:
    first = [answered(*each) for each in (("a", "17"), ("b", "3"), ("c", "17"))]
    second = [answered(*each) for each in (("a", "17"), ("b", "17"), ("c", "3"))]
    write_page(tmp_path, first, second)
    assert [each["id"] for each in read_rows(tmp_path)] == ["c", "b", "a"]
