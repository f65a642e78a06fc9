import os
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from eval.mlflow_export.tracked_run import HOST_TAG, PARENT_TAG, PID_TAG, SILENCE, TrackedRun, close_dead_runs, is_dead

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)


def ended_process() -> str:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return str(process.pid)


@pytest.mark.parametrize(
    ("host", "pid", "last_beat", "expected"),
    [
        (socket.gethostname(), str(os.getpid()), LONG_AGO, False),
        (socket.gethostname(), ended_process(), LONG_AGO, True),
        (socket.gethostname(), "no number", LONG_AGO, True),
        (socket.gethostname(), ended_process(), NOW - SILENCE + timedelta(seconds=1), False),
        ("elsewhere", str(os.getpid()), LONG_AGO, True),
        ("elsewhere", str(os.getpid()), NOW, False),
    ],
    ids=["alive here", "gone here", "unknown here", "gone a moment ago", "silent elsewhere", "alive elsewhere"],
)
def test_who_is_dead(host: str, pid: str, last_beat: datetime, expected: bool) -> None:
    assert is_dead({HOST_TAG: host, PID_TAG: pid}, last_beat, NOW) is expected


def test_a_sweep_of_another_machine_lives_as_long_as_its_jobs(opened: Callable[..., TrackedRun]) -> None:
    mine, parent = opened("mine"), opened("sweep", **{HOST_TAG: "elsewhere"})
    job = opened("job", **{PARENT_TAG: parent.run_id, HOST_TAG: "elsewhere"})
    job.beat(datetime.now(UTC).isoformat())
    assert close_dead_runs(mine) == []
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    job.beat(long_ago.isoformat())
    assert set(close_dead_runs(mine)) == {job.run_id, parent.run_id}
    assert parent.client.get_run(parent.run_id).info.end_time == round(long_ago.timestamp() * 1000)


def test_the_dead_are_closed_at_their_last_heartbeat(opened: Callable[..., TrackedRun]) -> None:
    mine, dead, alive, ended = (opened(name) for name in ("mine", "dead", "alive", "ended"))
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    for run in (mine, dead, ended):
        run.beat(long_ago.isoformat())
    alive.beat(datetime.now(UTC).isoformat())
    ended.finish("FINISHED", 1_795_000_060_000)
    foreign = mine.client.create_run(mine.experiment_id, start_time=1_795_000_000_000)  # no run of ours
    assert close_dead_runs(mine) == [dead.run_id]
    assert [run.status() for run in (mine, dead, alive, ended)] == ["RUNNING", "KILLED", "RUNNING", "FINISHED"]
    assert mine.client.get_run(foreign.info.run_id).info.status == "RUNNING"
    assert mine.client.get_run(dead.run_id).info.end_time == round(long_ago.timestamp() * 1000)
    assert close_dead_runs(mine) == []
