"""Tuning in actors of a Ray cluster: the same verdict, nothing lost, nothing paid for twice."""

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eval.execution.executors.test_ray import ready_actors
from tests.optimize.killed_runs import CONCURRENCY, check_killed_run, requests_by_phase
from tests.optimize.tuned import MINI, SimulatedServer, TunedRun, over_http, simulated_server
from tests.patience import wait_for

pytestmark = [
    pytest.mark.slow,  # whole runs, in processes of their own
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
]
OPTIONS = (*MINI, "seed=5", f"run.concurrency={CONCURRENCY}")


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    with simulated_server(0.02) as server:
        yield server


def test_tuning_comes_to_the_same_verdict_as_in_one_process(tmp_path: Path, server: SimulatedServer) -> None:
    """Also if a worker is killed in the search: then nothing is paid for twice but what it had in flight."""
    left_alone = TunedRun(tmp_path / "local" / "run", over_http(server, *OPTIONS), server)
    began = requests_by_phase(left_alone, server)
    sent = dict(server.counted)
    server.counted.clear()
    asked = over_http(server, *OPTIONS, "executor=ray", "executor.workers=2")
    run = TunedRun(tmp_path / "workers" / "run", asked, server)
    with run.started() as running:
        wait_for(lambda: server.asked >= began["search"] + 8)
        os.kill(wait_for(lambda: ready_actors(run.folder))[0], signal.SIGKILL)
    assert running.process.returncode == 0, run.printed[-1]
    check_killed_run(run, 1, left_alone, sent)
    log = (run.folder / "logs" / "entry_point.log").read_text("utf-8")
    assert log.count('"event": "worker died"') == 1
