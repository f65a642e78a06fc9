"""`optimize/report.py`: which run it takes, what it writes, and how it ends."""

from pathlib import Path

import pytest

from eval.cli.command import FINISHED, STOPPED
from eval.runs.folder import REPORT
from mas.runtime.errors import UserError
from optimize import report
from optimize.reports import tuning_page
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, a_tuning, verdict


def test_a_run_is_named_and_nothing_else() -> None:
    assert vars(report.read_arguments(["latest"])) == {"run": "latest"}
    for wrong in ([], ["one", "two"], ["--ru", "one"]):
        with pytest.raises(UserError):
            report.read_arguments(wrong)


def test_the_page_of_a_run_is_written_where_it_lies_and_its_path_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "OUTPUTS", tmp_path)
    folder = a_tuning(tmp_path / "optimize" / "mine", PROPOSALS, verdict=verdict())
    for name in ("latest", "mine", str(folder)):
        (folder / REPORT).unlink(missing_ok=True)
        assert report.task([name]) == FINISHED
        assert (folder / REPORT).read_text("utf-8").startswith("<!")
        assert REPORT in "".join(capsys.readouterr()).replace("\n", "")
    with pytest.raises(UserError):
        report.task(["nobody"])


def test_a_page_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(folder: Path) -> Path:
        raise OSError("disk full")

    monkeypatch.setattr(tuning_page, "write_tuning_page", fail)
    assert report.task([str(a_tuning(tmp_path / "run"))]) == STOPPED
    assert capsys.readouterr() == ("", "stopped: the page cannot be written: disk full\n")
