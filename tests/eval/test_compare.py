"""`eval/compare.py`: real runs and stored ones, what is refused, and what a person gets to see."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.statistics.paired_tests import Pair, adjust_p_values, run_paired_test
from eval.cli.command import FINISHED, USER_ERROR, run_cli
from eval.compare import task
from eval.runs.record import Usage
from mas.simulation import SIMULATED_NOTICE
from tests.eval.stored_run import CONFIG, SESSION, answered, stored_run
from tests.report_file import ReportFile

IDS = [f"q{n}" for n in range(1, 9)]


def compare(*arguments: str | Path) -> int:
    return run_cli(lambda: task([str(each) for each in arguments]))


def run(folder: Path, right: int, epochs: int = 1, cost_usd: float = 0.5, **meta: Any) -> Path:
    """The first `right` of eight questions are answered right."""
    records = [
        answered(id, "17" if place < right else "18", epoch=epoch, wall_seconds=2.0, usage=Usage(2, cost_usd=cost_usd))
        for place, id in enumerate(IDS)
        for epoch in range(1, epochs + 1)
    ]
    return stored_run(folder, records, epochs=epochs, **meta)


def content(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("ascii"))
    return found


def test_each_run_is_compared_with_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [run(tmp_path / "a", 1), run(tmp_path / "b", 8, cost_usd=0.2), run(tmp_path / "c", 2)]
    assert compare(*folders, "--json", tmp_path / "c.json") == FINISHED
    found = content(tmp_path / "c.json")
    expected = [run_paired_test([Pair((n < 1,), (n < right,)) for n in range(8)]) for right in (8, 2)]
    for made, result in zip(found["comparisons"], expected, strict=True):
        assert {key: made[key] for key in result.to_dict()} == json.loads(json.dumps(result.to_dict()))
    assert [made["p_holm"] for made in found["comparisons"]] == adjust_p_values([each.p for each in expected])
    better = found["comparisons"][0]
    assert (better["first"]["accuracy"], better["second"]["accuracy"]) == (0.125, 1.0)
    assert better["cost_usd"]["difference"] == pytest.approx(-0.3)
    assert better["seconds"]["difference"] == 0
    assert [flip["id"] for flip in better["flips"]] == IDS[1:]
    out = " ".join(capsys.readouterr().out.split())
    for text in (
        "B compared with A",
        "+87.5 points",
        "exact McNemar",
        "as one of 2 comparisons (Holm)",
        "better in B: q2, q3, q4, q5, q6, q7, q8 (--html FILE shows the answers)",
    ):
        assert text in out
    assert SIMULATED_NOTICE not in out


def test_runs_of_other_questions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run(tmp_path / "a", 4)
    other = stored_run(tmp_path / "b", [answered("q1", "18"), answered("q9", "17"), answered("q2", "17")])
    assert compare(first, other) == USER_ERROR
    err = capsys.readouterr().err
    assert "their questions differ: 2 of 9 are in both" in err
    assert "run.allow_config_change=true" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("others", [range(1, 9), range(1, 10)])
def test_a_run_with_another_gold_answer_is_not_to_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], others: range
) -> None:
    """Its answers would be kept, with the scores by the old one."""
    records = [answered(f"q{n}", "17", gold="18" if n == 2 else "17") for n in others]
    assert compare(run(tmp_path / "a", 4), stored_run(tmp_path / "b", records)) == USER_ERROR
    err = capsys.readouterr().err
    assert "choose other runs." in err
    assert "allow_config_change" not in err


def test_an_unfinished_run_is_to_be_resumed_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stopped = {**SESSION, "stopped": "out of money"}
    half = stored_run(tmp_path / "b", [answered("q1", "17"), answered("q2", "17")], planned=IDS, sessions=[stopped])
    assert compare(run(tmp_path / "a", 1), half) == USER_ERROR
    err = capsys.readouterr().err
    assert "6 answers are still missing" in err
    assert "run.resume=" in err


def test_other_rules_are_refused_and_answers_that_were_scored_again_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = run(tmp_path / "b", 4, config={**CONFIG, "scorer": {"_target_": "x"}})
    assert compare(run(tmp_path / "a", 4), other) == USER_ERROR
    assert "their scorers differ" in capsys.readouterr().err
    assert compare(tmp_path / "a", run(tmp_path / "c", 4, rescored_from="a")) == FINISHED
    assert "B holds the answers of a, scored again" in capsys.readouterr().out


def test_what_models_wrote_moves_neither_terminal_nor_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[31m[bold]<script>alert(1)</script>\u202e\ud800"
    first = stored_run(tmp_path / "a", [answered("q1", "17"), answered("q2", "17")])
    second = stored_run(tmp_path / "b", [answered("q1", evil), answered("q2", "17")])
    page = tmp_path / "page.html"
    assert compare(first, second, "--html", page, "--json", tmp_path / "c.json") == FINISHED
    out = capsys.readouterr().out
    assert "\x1b[31m" not in out
    text = page.read_text("utf-8")
    assert "<script>alert" not in text
    row = ReportFile(page).rows[0]
    assert row["id"] == "q1" and "<script>alert(1)</script>\\u202e\\ud800" in row["answers"][1][0]["line"]
    assert "default-src 'none'" in text


def test_mistakes_are_told_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "a", 4)
    for arguments, expected in (
        ([folder], "one run alone"),
        ([folder, folder / "run.db"], "is named twice"),
        ([folder, "nope"], "nope is no run"),
        ([], "required: RUN"),
        ([folder, folder, "--fast"], "--fast"),
    ):
        assert compare(*arguments) == USER_ERROR
        err = capsys.readouterr().err
        assert expected in err
        assert err.count("\n") == 1
