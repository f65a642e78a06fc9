"""Runs in actors of a Ray cluster, as the command runs them: what is killed comes back, and nothing is lost."""

import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.eval.execution.executors.test_processes import (
    command,
    comparable,
    options,
    records,
    run,
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


SECRET = "key-of-the-nodes-4711"


@dataclass
class Nodes:
    """A cluster of several nodes on this machine. The head has no CPU; the others see neither runs nor the harness."""

    hidden: Path
    environment: dict[str, str]
    folder: Path = field(default_factory=lambda: Path(f"/tmp/ray-{secrets.token_hex(4)}"))
    started: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    address: str = ""

    def start(self, ip: str, n_cpus: int, before: str = "", **variables: str) -> "subprocess.Popen[bytes]":
        """Start a node, which has its processes in a session of its own."""
        ray = PROJECT_ROOT / ".venv" / "bin" / "ray" if (PROJECT_ROOT / ".venv").exists() else shutil.which("ray")
        head = f"--head --port=0 --temp-dir={self.folder} --include-dashboard=false --disable-usage-stats"
        place = f"--address={self.address}" if self.address else head
        more = f"--node-ip-address={ip} --num-cpus={n_cpus} --block"
        node = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", f"{before} exec {sys.executable} {ray} start {place} {more}"],
            env={**self.environment, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.started.append(node)
        return node

    def start_head(self) -> None:
        self.folder.mkdir(mode=0o700)
        self.start("127.0.0.2", 0)
        self.address = wait_for(self._find_port)

    def _find_port(self) -> str:
        found = [each.read_text() for each in self.folder.glob("session_2*/gcs_server_port_*")]
        return f"127.0.0.2:{found[0]}" if found and found[0] else ""

    def start_worker_node(self, ip: str) -> "subprocess.Popen[bytes]":
        hide = [f"mount -t tmpfs none {path};" for path in (self.hidden, PROJECT_ROOT / "eval", PROJECT_ROOT / "mas")]
        node = self.start(ip, 1, " ".join(hide), KEY_OF_THE_NODES=SECRET)
        wait_for(self._count_nodes)  # two that start at once would take the same names
        return node

    def _count_nodes(self) -> str:
        found = [*self.folder.glob("session_2*/sockets/raylet*")]
        return str(len(found)) if len(found) == len(self.started) else ""

    def kill(self, node: "subprocess.Popen[bytes]") -> None:
        for each in in_session(node.pid):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        node.wait()

    def close(self) -> None:
        for node in self.started:
            self.kill(node)
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_for(find: Callable[[], str], seconds: float = 300.0) -> str:
    until = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < until
        time.sleep(0.1)
    return found


@pytest.fixture
def nodes(tmp_path: Path, clean_environment: dict[str, str]) -> Iterator[Nodes]:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("root is missing: only root may mount")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    nodes = Nodes(tmp_path, {**clean_environment, **token})
    try:
        nodes.start_head()
        yield nodes
    finally:
        nodes.close()
