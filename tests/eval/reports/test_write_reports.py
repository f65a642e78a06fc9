"""The page of a run as it is made from the run's database."""

from pathlib import Path

import pytest

from eval.reports.files import write_reports
from eval.reports.run_report import page as report
from eval.runs.store import RunStore
from tests.eval.stored_run import answered, stored_run
from tests.report_file import ReportFile


def page(folder: Path) -> ReportFile:
    with RunStore(folder / "run.db", read_only=True) as store:
        write_reports(folder, store)
    return ReportFile(folder / "report.html")


def steps(name: str) -> list[dict[str, object]]:
    return [{"id": 0, "parent": None, "kind": "agent", "name": name}]


def test_the_page_has_the_steps_of_the_last_attempt_and_the_datasets_order(tmp_path: Path) -> None:
    records = [
        answered("q2", "18", trajectory=steps("agent-of-q2")),
        answered("q1", None, error="down", error_class="infrastructure", score=None, trajectory=steps("first-try")),
        answered("q1", "17", attempt=2, trajectory=steps("second-try")),
    ]
    made = page(stored_run(tmp_path / "night", records, ["q1", "q2", "q3"]))
    assert made.ids == ["q1", "q2", "q3"] and made.rows[2]["question"] == "What is q3?"
    assert made.details("q1")["steps"][0]["title"] == "second-try"
    assert made.details("q2")["steps"][0]["title"] == "agent-of-q2"
    assert "first-try" not in made.text


def test_records_that_the_page_has_no_room_for_are_left_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "MAX_ANSWERS", 2)
    records = [answered(f"q{n}", "17", trajectory=steps(f"agent-{n}")) for n in range(4)]
    made = page(stored_run(tmp_path / "night", records))
    assert [n for n in range(4) if f"agent-{n}" in made.text] == [0, 1]
    assert "2 more questions are not shown here" in made.html


def test_the_head_names_the_run_and_its_command(tmp_path: Path) -> None:
    folder = stored_run(
        tmp_path / "night", [answered("q1", "17")], system="toy", command=["data=jsonl", "run.name=a b"]
    )
    html = page(folder).html
    assert "night (id run-1)" in html
    assert "python eval/run.py data=jsonl &#39;run.name=a b&#39;" in html
    assert str(tmp_path) not in html
