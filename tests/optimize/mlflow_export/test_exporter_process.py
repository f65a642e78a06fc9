"""The sender in its own process: the run neither waits for MLflow nor fails with it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eval.config.tracking import LocalTracking, NoTracking, ServerTracking
from eval.mlflow_export.exporter_launcher import ExporterLauncher
from eval.mlflow_export.tracked_run import HEARTBEAT_TAG, SILENCE
from eval.runs.mlflow_state import read_state
from optimize.mlflow_export.tuning_export import TUNING
from optimize.session.run_files import RunFiles
from tests.optimize.mlflow_export.tuning_folder import ENDED, PROPOSALS, a_tuning, client, propose, send, verdict

pytestmark = pytest.mark.slow  # whole runs, or whole stores

NOWHERE = "http://127.0.0.1:9"  # the discard port: nothing listens
NOBODY = 2**22 + 1  # beyond the highest number that Linux gives a process
SECRET = "a-secret-of-the-handover"


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def test_a_run_is_followed_while_it_goes_on_and_complete_at_its_end(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS[:1], ended_at=None, phase="search", reflection_model=SECRET)
    lines: list[str] = []
    with ExporterLauncher(local, folder, [SECRET], TUNING) as following:
        process = following._process
        assert process is not None
        assert SECRET not in Path(f"/proc/{process.pid}/cmdline").read_text()
        state = until(lambda: (found := read_state(folder)) and found.run_id and found)
        run = until(lambda: (found := client(local).get_run(state.run_id)) and found.data.params and found)
        assert (run.info.status, run.data.params["reflection_model"]) == ("RUNNING", "***")
        assert (run.data.tags["harness.pid"], state.complete) == (str(os.getpid()), False)
        propose(folder, PROPOSALS[1], RunFiles(folder).read_info().system)
        RunFiles(folder).write("verdict", verdict(published=False))
        RunFiles(folder).update_state(ended_at=ENDED)
        outcome = following.finish(lines.append)
    ended = read_state(folder)
    assert ended is not None
    assert (ended.complete, ended.status, ended.warning) == (True, "FINISHED", None)
    assert ended.counts == {"proposals": {"store": 2, "mlflow": 2}}
    assert client(local).get_run(state.run_id).info.status == "FINISHED"
    assert outcome.view_line and outcome.view_line.endswith(f"#/experiments/{ended.experiment_id}/runs/{ended.run_id}")
    assert outcome.warning is None
    assert SECRET not in (folder / "logs" / "mlflow.log").read_text()


def test_a_run_whose_process_ends_without_a_word_is_closed_as_killed(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS[:1], ended_at=None)
    with ExporterLauncher(local, folder, [], TUNING) as following:
        assert following._process is not None
    state = until(lambda: (found := read_state(folder)) and found.complete and found)
    assert state.status == client(local).get_run(state.run_id).info.status == "KILLED"


def test_a_tuning_run_that_died_is_closed_by_the_next(tmp_path: Path, local: LocalTracking) -> None:
    dead = send(a_tuning(tmp_path / "dead", PROPOSALS[:1], ended_at=None), local, pid=NOBODY)
    long_ago = (datetime.now(UTC) - 2 * SILENCE).isoformat()
    client(local).set_tag(dead.run.run_id, HEARTBEAT_TAG, long_ago)
    folder = a_tuning(tmp_path / "run", ended_at=None)
    with ExporterLauncher(local, folder, [], TUNING):
        until(lambda: client(local).get_run(dead.run.run_id).info.status == "KILLED")


def test_an_mlflow_that_is_not_there_costs_one_line(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict())
    with ExporterLauncher(ServerTracking(uri=NOWHERE, wait_seconds=5), folder, [], TUNING) as following:
        warning = following.finish(lambda line: None).warning
    assert warning and len(warning.splitlines()) == 1
    assert warning.endswith(f"complete it with: python optimize/sync.py {folder}")


def test_with_tracking_off_nothing_is_started(tmp_path: Path) -> None:
    folder = a_tuning(tmp_path / "run", verdict=verdict())
    before = sorted(folder.rglob("*"))
    with ExporterLauncher(NoTracking(), folder, [], TUNING) as following:
        following.finish(lambda line: None)
        assert following._process is None
    assert sorted(folder.rglob("*")) == before


def test_the_tuning_process_does_not_import_mlflow() -> None:
    code = "import sys, optimize.pipeline.tuning; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
