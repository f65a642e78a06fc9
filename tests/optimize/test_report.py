"""`optimize/report.py`: which run it takes, what it writes, and how it ends."""

from pathlib import Path

import pytest

from eval.cli.command import STOPPED
from optimize import report
from optimize.reports import tuning_page
from tests.optimize.mlflow_export.tuning_folder import a_tuning


def test_a_page_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(folder: Path) -> Path:
        raise OSError("disk full")

    monkeypatch.setattr(tuning_page, "write_tuning_page", fail)
    assert report.task([str(a_tuning(tmp_path / "run"))]) == STOPPED
    assert capsys.readouterr() == ("", "stopped: the page cannot be written: disk full\n")
