"""Runs of which one's prompts were tuned on some of the questions: they are compared on the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.cli.command import FINISHED, run_cli
from eval.compare import task
from eval.runs.run_info import TuningUse
from tests.eval.stored_run import answered, stored_run

IDS = [f"q{n}" for n in range(8)]


def run(folder: Path, right: int, learnt_from: str = "", picked_by: str = "", known: bool = True) -> Path:
    """The first `right` of eight questions are answered right; those that were used are named by their digits."""
    used = TuningUse(folder.name, [f"q{n}" for n in learnt_from], [f"q{n}" for n in picked_by])
    records = [answered(id, "17" if place < right else "18") for place, id in enumerate(IDS)]
    return stored_run(folder, records, tuning_use=used if known else None)


def compared(place: Path, *folders: Path, code: int = FINISHED) -> list[dict[str, Any]]:
    target = place / "c.json"
    arguments = [*map(str, folders), "--json", str(target), "--html", str(place / "c.html")]
    assert run_cli(lambda: task(arguments)) == code
    made: list[dict[str, Any]] = json.loads(target.read_text("ascii"))["comparisons"]
    return made


def test_runs_are_compared_on_the_questions_that_were_not_tuned_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (made,) = compared(tmp_path, run(tmp_path / "a", 2, known=False), run(tmp_path / "owned", 6, "01", "23"))
    expected = run_paired_test([Pair((0.0,), (float(place < 6),)) for place in (4, 5, 6, 7)])
    assert {key: made[key] for key in expected.to_dict()} == json.loads(json.dumps(expected.to_dict()))
    assert (made["n_tuned_on"], made["is_optimistic"]) == (4, False)
    told = (
        "4 of the 8 questions were used to tune the prompts of B, owned (2 for training, 2 for validation); "
        "these are left out here"
    )
    assert told in " ".join(capsys.readouterr().out.split())
    page = (tmp_path / "c.html").read_text("utf-8")
    assert told in page and "on the 4 questions that were not tuned on" in page


def test_where_all_questions_were_tuned_on_a_warning_says_that_the_difference_is_too_optimistic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (made,) = compared(tmp_path, run(tmp_path / "a", 2, known=False), run(tmp_path / "owned", 6, "0123", "4567"))
    assert (made["n_questions"], made["n_tuned_on"], made["is_optimistic"]) == (8, 8, True)
    assert "warning: all 8 questions were used to tune the prompts of B, owned" in capsys.readouterr().out
    assert "on the 8 questions that were tuned on" in (tmp_path / "c.html").read_text("utf-8")


def test_of_an_edited_set_it_says_that_nothing_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited = {"tuning_use": TuningUse("mine", [], [], is_edited=True)}
    records = [answered(id, "17") for id in IDS]
    compared(tmp_path, run(tmp_path / "a", 2), stored_run(tmp_path / "b", records, **edited))
    told = "warning: B: tuned_on.json of mine was edited or removed: which questions it was tuned on is not known"
    assert told in " ".join(capsys.readouterr().out.split())
    assert told in (tmp_path / "c.html").read_text("utf-8")
