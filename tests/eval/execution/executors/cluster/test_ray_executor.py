"""Runs in actors of a Ray cluster, as the command runs them: what is killed comes back, and nothing is lost."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.eval.execution.executors.test_processes import (
    command,
    comparable,
    options,
    records,
    run,
    wait_for_requests,
)
from tests.killed_run import slow_server

pytestmark = pytest.mark.slow
RAY = ("executor=ray", "executor.workers=2")


def in_session(session: int) -> list[int]:
    """Ids of the processes that a run's command has started in a session of their own."""
    found = subprocess.run(["pgrep", "-s", str(session)], capture_output=True, text=True)
    return [int(each) for each in found.stdout.split()]


def find_bridge(command_id: int) -> int | None:
    """Id of the process that is connected to the cluster, and of its session."""
    found = subprocess.run(["pgrep", "-P", str(command_id), "-f", "ray_bridge"], capture_output=True, text=True)
    return int(found.stdout.split()[0]) if found.stdout.strip() else None


def ready_actors(folder: Path) -> list[int]:
    """Ids of the processes whose workers have begun to answer and still run, by the run's log."""
    log = folder / "logs" / "entry_point.log"
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    ready = [line["pid"] for line in lines if line["event"] == "worker ready"]
    return [each for each in ready if Path(f"/proc/{each}").exists()]


def of_this_server(folder: Path, server: object, number: int) -> list[str]:
    return [each for each in options(folder, server, number) if not each.startswith("executor")]  # type: ignore[arg-type]


def test_records_are_those_of_a_single_process(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    asked = ["experiment=offline", "limit=12", "run.epochs=2", "cache.tools=off"]
    for name, more in (("local", ()), ("ray", RAY)):
        output = run(tmp_path / name, clean_environment, *asked, *more)
        assert "Traceback" not in output, output
    local, ray = (sorted(map(json.dumps, map(comparable, records(tmp_path / n)))) for n in ("local", "ray"))
    assert local == ray
    log = (tmp_path / "ray" / "logs" / "multi_agent_system.log").read_text("utf-8").splitlines()
    assert len({json.loads(line)["correlation_id"] for line in log}) == 24


def test_actors_and_the_whole_ray_that_are_killed_lose_and_double_nothing(
    tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    """Actors are killed at random, and once the process that has started their Ray."""
    draw, kills, number = random.Random(11), 0, 60
    with slow_server(0.04) as server:
        asked = [*of_this_server(tmp_path / "data", server, number), *RAY]
        with command(tmp_path / "run", clean_environment, *asked) as process:
            before, wanted = 0, 4
            while process.poll() is None and kills < 6:
                time.sleep(draw.uniform(0.0, 0.1))
                bridge, actors = find_bridge(process.pid), ready_actors(tmp_path / "run")
                if len(server.requests()) - before < wanted or not actors or not bridge:
                    continue
                os.kill(bridge if kills == 3 else draw.choice(actors), signal.SIGKILL)
                kills, before, wanted = kills + 1, len(server.requests()), draw.randint(4, 12)
            output, _ = process.communicate(timeout=240)
        sent = len(server.requests())
    assert kills == 6, output
    done = records(tmp_path / "run")
    assert sorted(each["sample_id"] for each in done) == [f"q{n:03}" for n in range(number)], output
    assert [each for each in done if each["error"]] == [], output
    assert 3 * number <= sent <= 3 * number + 8 * kills
    assert sum(each["usage"]["lm_calls"] - each["usage"]["replayed_calls"] for each in done) <= sent


def test_a_run_whose_process_is_killed_leaves_nothing_and_is_resumed(
    tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    with slow_server(0.05) as server:
        asked = [*of_this_server(tmp_path / "data", server, 40), *RAY]
        with command(tmp_path / "run", clean_environment, *asked) as process:
            wait_for_requests(server, 30)
            bridge = find_bridge(process.pid)
            assert bridge is not None
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            until = time.monotonic() + 30
            while in_session(bridge):
                assert time.monotonic() < until, "processes of Ray are left"
                time.sleep(0.1)
        sent = len(server.requests())
        with command(tmp_path / "run", clean_environment, *asked, f"run.resume={tmp_path / 'run'}") as process:
            wait_for_requests(server, sent + 20)
            os.killpg(process.pid, signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 3, output
        output = run(tmp_path / "run", clean_environment, *asked, f"run.resume={tmp_path / 'run'}")
        sent = len(server.requests())
    done = records(tmp_path / "run")
    assert sorted(each["sample_id"] for each in done) == [f"q{n:03}" for n in range(40)], output
    assert all(each["error"] is None for each in done)
    assert sent <= 3 * 40 + 8, "only requests in flight at the kill were sent again"
