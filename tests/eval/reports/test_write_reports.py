"""The page of a run as it is made from the run's database."""

from pathlib import Path

from eval.reports.files import write_reports
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
