"""`optimize/sync.py`: what is missing in MLflow is sent, and told."""

from pathlib import Path

import pytest

from eval.cli.command import FINISHED, USER_ERROR, run_cli
from eval.config.tracking import LocalTracking
from eval.mlflow_export.exporter import read_state
from eval.runs.folder import DATABASE, RunLock
from optimize.sync import sync
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, a_tuning, client, verdict


def synced(*arguments: object) -> int:
    return run_cli(lambda: sync([str(each) for each in arguments]))


def test_a_run_is_sent_where_it_belongs_as_often_as_one_likes(
    tmp_path: Path, local: LocalTracking, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, tracking=local, verdict=verdict())
    for _ in range(2):
        assert synced(folder) == FINISHED
        out = capsys.readouterr().out
        assert f"in {local.address()}: 3 proposals" in out
        assert "see it: " in out
    state = read_state(folder)
    assert state is not None
    assert (state.complete, state.counts) == (True, {"proposals": {"store": 3, "mlflow": 3}})
    assert len(client(local).search_runs([state.experiment_id])) == 4


def test_a_run_that_goes_on_sends_itself(
    tmp_path: Path, local: LocalTracking, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_tuning(tmp_path / "run", tracking=local, ended_at=None)
    lock = RunLock(folder / DATABASE)
    lock.take()
    try:
        assert synced(folder) == USER_ERROR
    finally:
        lock.release()
    assert "run is still going on, and sends itself" in capsys.readouterr().err
