"""The table of a sweep, its numbers and its page: they are those of `eval/compare.py`."""

import json
import re
from pathlib import Path

import pytest

from eval.analysis.comparison.compare_runs import compare_read_runs, read_runs
from eval.runs.run_info import TuningUse
from eval.workflows.sweep import Job, Sweep
from eval.workflows.sweep_table import make_table
from tests.eval.stored_run import answered, stored_run

IDS = [f"q{number}" for number in range(8)]


def run(folder: Path, right: int, learnt_from: list[str] | None = None) -> Path:
    records = [answered(each, "17" if number < right else "5") for number, each in enumerate(IDS)]
    use = TuningUse("mine", learnt_from, [], {}) if learnt_from else None
    return stored_run(folder, records, tuning_use=use, run_id=folder.name)


def test_table_numbers_and_page_leave_out_what_prompts_were_tuned_on_as_a_comparison_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [run(tmp_path / "a", 2), run(tmp_path / "b", 6, IDS[:4]), run(tmp_path / "c", 5)]
    jobs = [Job(number, [f"x={number}"], f"../{each.name}", each.name, 0) for number, each in enumerate(folders)]
    make_table(Sweep(tmp_path / "sweep", jobs=jobs))
    shown = capsys.readouterr().out
    numbers = json.loads((tmp_path / "sweep" / "sweep.json").read_text("utf-8"))["comparisons"]
    page = (tmp_path / "sweep" / "sweep.html").read_text("utf-8")
    expected = compare_read_runs(read_runs(folders), intersection=False).comparisons
    for made, compared in zip(numbers, expected, strict=True):
        assert made.items() >= compared.comparison.score.to_dict().items()
        assert made["p_holm"] == compared.p_holm
        points = f"{100 * made['difference']:+.1f}"
        assert points in shown and points in page
    assert [(each["n_questions"], each["n_tuned_on"]) for each in numbers] == [(4, 4), (8, 0)]
    assert "job 1 is compared with job 0 without 4 questions that prompts were tuned on" in re.sub(r"\s+", " ", shown)
