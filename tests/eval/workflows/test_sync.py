"""`eval/sync.py` sends what is missing in MLflow. Runs that failed on the way: test_exporter_launcher.py."""

from dataclasses import replace
from pathlib import Path

import pytest

from eval.cli.command import FINISHED, USER_ERROR, run_cli
from eval.config.tracking import LocalTracking
from eval.mlflow_export.exporter import read_state
from eval.runs.store import RunStore
from eval.sync import sync as run_command
from tests.eval.mlflow_export.exporting import a_run, everything, in_mlflow, own_records
from tests.eval.stored_run import CONFIG

OFF = {**CONFIG, "tracking": {"_target_": "eval.config.evaluation.NoTracking"}}


def synced(*arguments: object) -> int:
    return run_cli(lambda: run_command([str(each) for each in arguments]))


def overrides(settings: LocalTracking) -> list[str]:
    return ["tracking=local", f"tracking.folder={settings.folder}", f"tracking.experiment='{settings.experiment}'"]


@pytest.mark.slow
def test_a_run_is_sent_where_it_belongs_and_a_second_time_changes_nothing(
    tmp_path: Path, local: LocalTracking, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_run(tmp_path / "run", local, own_records("q1", "q2"))
    assert synced(folder) == FINISHED
    out = capsys.readouterr().out
    assert "run: sent 2 traces, 22 spans" in out
    assert f"in {local.address()}: 2 traces, 22 spans" in out
    assert "see it: " in out
    state = read_state(folder)
    assert state is not None
    before = everything(in_mlflow(local, state))
    assert before["run"]["info"]["status"] == "FINISHED"
    assert synced(folder) == FINISHED
    assert "run: sent nothing new" in capsys.readouterr().out
    assert everything(in_mlflow(local, state)) == before


def test_only_what_is_missing_is_sent(tmp_path: Path, local: LocalTracking, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = own_records("q1", "q2")
    folder = a_run(tmp_path / "run", local, [first], planned=["q1", "q2"], finished=False)
    assert synced(folder) == FINISHED
    with RunStore(folder / "run.db") as store:
        store.write(second)
        store.write_state(replace(store.read_state(), finished=True))
    capsys.readouterr()
    assert synced(folder) == FINISHED
    assert "run: sent 1 traces, 11 spans" in capsys.readouterr().out


def test_a_run_without_tracking_needs_to_be_told_where_to(
    tmp_path: Path, local: LocalTracking, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_run(tmp_path / "run", local, own_records("q1"), config=OFF)
    assert synced(folder) == USER_ERROR
    assert "tracking=off is how run was made; say where it shall go: tracking=local" in capsys.readouterr().err
    assert synced(folder, "++tracking.wait_seconds=5") == USER_ERROR
    assert "tracking=off is how run was made; say where" in capsys.readouterr().err
    assert synced(folder, *overrides(local)) == FINISHED


def test_a_run_can_be_in_two_experiments_of_one_mlflow(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_run(tmp_path / "run", local, own_records("q1"))
    assert synced(folder) == FINISHED
    state = read_state(folder)
    assert state is not None
    before = everything(in_mlflow(local, state))
    other = replace(local, experiment=f"{local.experiment} b")
    assert synced(folder, f"tracking.experiment={other.experiment}") == FINISHED
    assert everything(in_mlflow(local, state)) == before
    copied = read_state(folder)
    assert copied is not None and copied.experiment_id != state.experiment_id
    assert len(everything(in_mlflow(other, copied))["traces"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name one run; usage: python eval/sync.py RUN"),
        (["a", "b"], "name one run; usage: python eval/sync.py RUN"),
        (["RUN", "model=offline"], "model is not an option here; give tracking=… and its options only"),
        (["RUN", "tracking=sever"], "tracking=sever is not known; did you mean server? Otherwise choose one of"),
        (["RUN", "tracking=off"], "tracking=off sends nothing; say where it shall go: tracking=local"),
        (["RUN", "tracking=server"], "tracking=server needs the server's address"),
    ],
)
def test_each_mistake_is_one_sentence(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    folder = a_run(tmp_path / "run", LocalTracking(), own_records("q1"))
    assert synced(*(str(folder) if each == "RUN" else each for each in arguments)) == USER_ERROR
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
