"""A run's score as the terminal and the index page show it."""

from pathlib import Path

import pytest

from eval.analysis.run_list.read_runs import EVALUATION, RunEntry, read_entry, read_runs
from eval.execution.console import Console
from eval.reports.run_list.page import write_index
from eval.reports.run_list.table import format_score, print_runs
from tests.eval.analysis.run_list.test_read_runs import finished


@pytest.mark.parametrize("width", [80, 200])
def test_a_part_of_a_proof_is_no_measurement(tmp_path: Path, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    folder = finished(tmp_path / "attribution" / "night" / "expert", gold_informed="expert")
    print_runs([read_entry(folder, EVALUATION)], 1, Console(width=width))
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "no measurement" in shown and "gave expert the right answers" in shown and "50.0%" not in shown


def test_the_index_page_counts_and_names_parts_of_proofs(tmp_path: Path) -> None:
    finished(tmp_path / "eval" / "night")
    finished(tmp_path / "attribution" / "night" / "control", gold_informed="control")
    write_index(tmp_path / "index.html", read_runs([tmp_path]))
    page = (tmp_path / "index.html").read_text("utf-8")
    assert "1 of these runs is no measurement" in page
    assert page.count('"no measurement') == 1 and page.count("50.0%") == 1


def test_a_running_run_says_how_far_it_is() -> None:
    run = RunEntry(folder=Path("r"), kind=EVALUATION, n=9, n_answered=4)
    assert format_score(run) == "4 of 9 answered"
