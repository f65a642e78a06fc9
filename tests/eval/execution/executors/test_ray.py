"""Runs in actors of a Ray cluster, as the command runs them: the same records, one budget, and nothing is lost."""

import json
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from eval.config.executor import RaySettings
from mas.runtime.errors import UserError
from tests.eval.command_line import EvalCommand, dataset, question
from tests.patience import wait_for
from tests.process import finish, started
from tests.servers.faults import FaultServer, fault_server

RAY = ("executor=ray", "executor.workers=2")
PRICE = "+model.prices.default={input_usd_per_million: 1.0, output_usd_per_million: 2.0}"
OF_THE_COURSE = {  # of a record: times, ids, and what follows from them
    *("run_id", "thread_id", "started_at", "wall_seconds", "waited_seconds", "seconds_by_agent"),
    *("start_seconds", "end_seconds", "seconds", "timestamp", "correlation_id"),
}


@pytest.mark.parametrize(
    ("settings", "resolved", "words"),
    [
        (RaySettings(workers=0), {}, "executor.workers=0 is out of range; expected 1 to 256, or null"),
        (RaySettings(), {"system": {"target": "in-memory:mine"}}, "system: an object of this Python program"),
        (RaySettings(), {"scorer": {"target": "in-memory:mine"}}, "or use executor=local"),
    ],
)
def test_what_cannot_run_in_workers_is_refused(settings: RaySettings, resolved: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        settings.check(resolved)


def test_rows_of_a_python_program_may_be_answered_by_workers() -> None:
    RaySettings(workers=2).check({"data": {"target": "in-memory:rows"}, "system": {"target": "os:getcwd"}})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("executor=ray", "executor.workers=1000"), "executor.workers=1000 is out of range"),
        (("executor=processes",), "executor=processes is not known; choose one of: local, ray"),
        (("executor.workers=2",), "executor.workers is not an option"),
    ],
)
def test_the_command_refuses_other_workers_before_anything_is_made(
    options: tuple[str, ...], words: str, eval_command: EvalCommand
) -> None:
    finished = eval_command("experiment=offline", *options)
    assert (finished.code, finished.err.count("\n")) == (1, 1)
    assert words in finished.err
    assert not finished.folder.exists()


def comparable(value: object) -> object:
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items() if key not in OF_THE_COURSE}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def run(folder: Path, *options: str, **how: Any) -> str:
    ended = finish(folder, *options, "tracking=off", **how)
    return ended.out + ended.err


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text("utf-8").splitlines()]


def ready_actors(folder: Path) -> list[int]:
    """Ids of the processes whose workers have begun to answer and still run, by the run's log."""
    log = folder / "logs" / "entry_point.log"
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    ready = [line["pid"] for line in lines if line["event"] == "worker ready"]
    return [each for each in ready if Path(f"/proc/{each}").exists()]


def list_logged_answers(folder: Path) -> set[str]:
    """Return the ids of the answers whose steps are in the run's log."""
    steps = (folder / "logs" / "multi_agent_system.log").read_text("utf-8").splitlines()
    return {json.loads(line)["correlation_id"] for line in steps}


def find_children(process: int, name: str) -> list[int]:
    return [each.pid for each in psutil.Process(process).children() if each.name() == name]


def options(folder: Path, server: FaultServer, number: int) -> list[str]:
    rows = [question(f"q{n:03}", f"Number {n}: what is 6 * 7?", "42") for n in range(number)]
    model = ["model=openai_compatible", f"model.base_url={server.base_url}", PRICE]
    return ["system=toy", *model, *dataset(folder, *rows), "run.concurrency=8", "run.max_same_errors=null", *RAY]


@pytest.fixture
def cluster(clean_environment: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Address of a cluster of this machine, and an environment with its token."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    environment = {**clean_environment, **token}
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        options = ["--head", "--port=0", "--node-ip-address=127.0.0.2", "--num-cpus=2", f"--temp-dir={folder}/ray"]
        head = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", *options, "--include-dashboard=false", "--block"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            files = wait_for(lambda: list(Path(folder).glob("ray/session_2*/gcs_server_port_*")))
            yield f"127.0.0.2:{wait_for(files[0].read_text)}", environment
        finally:
            found = subprocess.run(["pgrep", "-s", str(head.pid)], capture_output=True, text=True)
            for each in found.stdout.split():
                os.kill(int(each), signal.SIGKILL)
            head.wait()


@pytest.mark.slow
def test_records_are_those_of_a_single_process(
    tmp_path: Path, eval_command: EvalCommand, cluster: tuple[str, dict[str, str]]
) -> None:
    """In a cluster that was there before, which the run joins and sends what it needs."""
    address, environment = cluster
    asked = ["experiment=offline", "limit=12", "run.epochs=2", "cache.tools=off"]
    eval_command(*asked, f"run.dir={tmp_path / 'local'}")
    output = run(tmp_path / "ray", *asked, "executor=ray", f"executor.address={address}", environment=environment)
    assert "Traceback" not in output, output
    local, ray = (sorted(map(json.dumps, map(comparable, records(tmp_path / n)))) for n in ("local", "ray"))
    assert local == ray
    log = (tmp_path / "ray" / "logs" / "entry_point.log").read_text("utf-8")
    assert log.count('"event": "worker ready"') == 2, output
    assert list_logged_answers(tmp_path / "ray") == set(), "what a node of a cluster did is in the records alone"


@pytest.mark.slow
def test_actors_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    """What their samples had paid is not paid again, but for requests in flight."""
    draw, kills, number = random.Random(11), 0, 40
    with fault_server(latency_seconds=0.04) as server:
        with started(tmp_path / "run", *options(tmp_path / "data", server, number), "tracking=off") as running:
            before, wanted = 0, 4
            while running.process.poll() is None and kills < 4:
                time.sleep(draw.uniform(0.0, 0.1))
                actors = ready_actors(tmp_path / "run")
                if server.asked - before < wanted or not actors:
                    continue
                os.kill(draw.choice(actors), signal.SIGKILL)
                kills, before, wanted = kills + 1, server.asked, draw.randint(4, 12)
            output = running.end().err
        sent = server.asked
    assert kills == 4, output
    done = records(tmp_path / "run")
    assert sorted(each["sample_id"] for each in done) == [f"q{n:03}" for n in range(number)], output
    lost = [each for each in done if each["error"]]  # those that three workers were killed with alone
    assert all("the worker ended 3 times" in each["error"] for each in lost)
    assert len(lost) <= 1, output
    assert {each["thread_id"] for each in done if not each["error"]} <= list_logged_answers(tmp_path / "run")
    assert 3 * (number - len(lost)) <= sent <= 3 * number + 8 * kills
    assert sum(each["usage"]["lm_calls"] - each["usage"]["replayed_calls"] for each in done) <= sent


@pytest.mark.slow
def test_a_run_whose_ray_is_killed_ends_or_is_resumed(tmp_path: Path) -> None:
    folder, number = tmp_path / "run", 60
    with fault_server(latency_seconds=0.04) as server:
        asked = options(tmp_path / "data", server, number)
        with started(folder, *asked, "tracking=off") as running:
            assert running.wait_until(lambda: server.asked >= 30)
            os.kill(find_children(running.process.pid, "raylet")[0], signal.SIGKILL)
            ended = running.end()
        output = ended.err
        if ended.code != 0:
            output += run(folder, *asked, f"run.resume={folder}")
        sent = server.asked
    assert sorted(each["sample_id"] for each in records(folder)) == [f"q{n:03}" for n in range(number)], output
    assert 3 * number <= sent <= 3 * number + 8


@pytest.mark.slow
def test_one_signal_for_all_processes_ends_a_run_in_order(tmp_path: Path) -> None:
    with fault_server(latency_seconds=0.05) as server:
        asked = options(tmp_path / "data", server, 200)
        with started(tmp_path / "stopped", *asked, "tracking=off") as running:
            assert running.wait_until(lambda: server.asked >= 30)
            os.killpg(running.process.pid, signal.SIGINT)
            ended = running.end()
        assert ended.code == 3, ended.err
        sent = server.asked
    done = records(tmp_path / "stopped")
    assert 0 < len(done) < 200
    assert all(each["error"] is None for each in done)
    assert sent == 3 * len(done), "what was in flight has finished, and nothing new was started"


@pytest.mark.slow
def test_sigterm_while_ray_starts_ends_the_command_as_ctrl_c_does(tmp_path: Path) -> None:
    with started(tmp_path / "run", "experiment=offline", *RAY, "tracking=off") as running:
        assert running.wait_until(lambda: find_children(running.process.pid, "gcs_server"))
        ended = running.end(signal.SIGTERM)
    assert (ended.code, ended.err.partition(";")[0]) == (3, "stopped by SIGTERM")


@pytest.mark.slow
def test_one_budget_and_one_rate_are_for_all_workers(tmp_path: Path) -> None:
    limits = ("run.max_cost_usd=0.008", "model.rate.requests_per_minute=600")
    with fault_server(latency_seconds=0.05) as server:
        output = run(tmp_path / "run", *options(tmp_path / "data", server, 200), *limits)
        seconds = [each["seconds"] for each in server.requests()]
    assert "run.max_cost_usd=0.008" in output
    usage = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))["usage"]
    spent = re.search(r"the run has spent \$([0-9.]+)", output)
    assert spent is not None, output
    cost = usage["known_cost_usd"] / usage["lm_calls"]
    assert 0.008 <= float(spent[1]) <= 0.008 + 8 * cost
    assert len(seconds) < 0.008 / cost + 8, "those in flight when the last dollar was spent, and no more"
    assert len(seconds) / (seconds[-1] - seconds[0]) < 15, "10 a second, and not 10 of each worker"


@pytest.mark.slow
def test_a_server_that_is_no_ray_ends_the_command_with_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        asked = ["experiment=offline", "limit=1", "executor=ray", f"executor.address={address}"]
        ended = finish(tmp_path / "run", *asked, "tracking=off")
    output = ended.out + ended.err
    assert ended.code == 1, output
    assert f"the cluster at executor.address={address} cannot be used: no Ray has answered within 30 s" in output
    assert "Traceback" not in output
