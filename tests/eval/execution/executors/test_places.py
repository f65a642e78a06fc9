"""Tests of the places of workers: which one an executor has, how runs share it, and what is refused."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import EvalConfig, read_config
from eval.config.executor import ProcessesSettings, RaySettings
from eval.execution.executors.channel import Channel, Failed, Start, receive_start
from eval.execution.executors.cluster.connection import BridgeSettings, Cluster
from eval.execution.executors.cluster.run_cluster import RunCluster
from eval.execution.executors.contract import Host
from eval.execution.executors.local import LocalExecutor
from eval.execution.executors.places import ThisMachine, open_place
from eval.execution.executors.processes import WorkersExecutor
from eval.execution.termination import StopController
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleKey
from mas.system import Resources


@dataclass
class NoPlace:
    """A Place whose workers cannot be started."""

    n_workers: int
    starts: list[Start] = field(default_factory=list)

    def move(self, sample: Sample) -> Sample:
        return sample

    async def start_worker(self, start: Start) -> tuple[Host, Channel]:
        self.starts.append(start)
        await asyncio.sleep(0.01)  # meanwhile the others are asked for
        raise UserError("the cluster has ended.")


@dataclass
class ConnectedCluster:
    """A cluster of so many CPUs."""

    n_cpus: float
    settings: list[BridgeSettings] = field(default_factory=list)

    @contextmanager
    def open(self, settings: BridgeSettings) -> Iterator["ConnectedCluster"]:
        self.settings.append(settings)
        yield self

    def wait(self) -> float:
        return self.n_cpus


@pytest.fixture
def config() -> EvalConfig:
    return read_config(compose_config(["system=toy", "data=toy", "model=offline", "run.concurrency=8"]))


def test_worker_processes_are_started_on_this_machine(config: EvalConfig) -> None:
    config.executor = ProcessesSettings(workers=3)
    with open_place(config, {}, []) as place:
        assert place == ThisMachine(3)


@pytest.mark.parametrize(("n_workers", "n_runs", "started"), [(5, 1, 5), (5, 2, 2), (1, 2, 1), (16, 2, 6)])
def test_runs_at_the_same_time_share_the_workers(n_workers: int, n_runs: int, started: int, config: EvalConfig) -> None:
    place, stop, records = NoPlace(n_workers), StopController(say=lambda line: None), list[Record]()
    local = LocalExecutor(config, config.read_prompts(), Resources(config.tools))
    executor = WorkersExecutor(local, config, None, {}, place, n_runs)
    pending = [(Sample(f"q{n}", "?", None), SampleKey(f"q{n}")) for n in range(6)]
    asyncio.run(executor.run(RunInfo(run_id="r"), pending, records.append, stop))
    assert (len(place.starts), str(stop.reason), records) == (started, "the cluster has ended.", [])


def test_a_cluster_has_a_cpu_for_each_run_at_the_same_time(config: EvalConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    small, own = ConnectedCluster(1.0), ConnectedCluster(1.0)
    config.executor = RaySettings(address="10.0.0.5:6379")
    monkeypatch.setattr(Cluster, "open", small.open)
    with open_place(config, {"system": {}}, []) as place:
        assert place.n_workers == 1
    words = "has 1 CPUs, and 2 programs are compared at the same time; add nodes until it has 2"
    with pytest.raises(UserError, match=words), open_place(config, {"system": {}}, [], n_runs=2):
        pass
    config.executor = RaySettings(workers=1)
    monkeypatch.setattr(Cluster, "open", own.open)
    with open_place(config, {"system": {}}, [], n_runs=2):
        assert [each.n_workers for each in own.settings] == [2], "CPUs of its own Ray"


def test_a_worker_of_a_cluster_gets_the_files_of_the_run_and_what_its_message_adds(
    config: EvalConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    attached = tmp_path / "table.csv"
    attached.write_text("1")
    monkeypatch.setattr(Cluster, "open", ConnectedCluster(2.0).open)
    monkeypatch.setattr(ConnectedCluster, "start_worker", lambda cluster: None, raising=False)
    monkeypatch.setattr(
        "eval.execution.executors.cluster.run_cluster.send_start", lambda end, start: sent.append(start)
    )

    async def open_channel(end: object) -> None: ...

    monkeypatch.setattr(Channel, "open", open_channel)
    config.executor = RaySettings(address="10.0.0.5:6379")
    sample = Sample("q1", "?", attached)
    start = Start({"system": {}, "cache": {"tools": "off"}}, None, RunInfo(), "/f", ("/of/this/machine",))
    with open_place(config, {"system": {}}, [sample]) as place:
        moved = place.move(sample).file
        assert moved is not None and not moved.is_absolute() and moved.name == "table.csv"
        host, _ = asyncio.run(place.start_worker(start))
    assert host.name == "actor 1"
    assert sent[0].config["cache"] == {"tools": "off"} and "NoTracking" in str(sent[0].config["tracking"])
    assert sent[0].path == ()


def test_a_cluster_that_cannot_be_used_says_so_to_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is read once; what follows on that connection is only its end."""
    monkeypatch.setattr("sys.executable", "/bin/false")
    with Cluster.open(BridgeSettings(None, 1)) as cluster:
        reasons = []
        for ask in (cluster.wait, cluster.start_worker, cluster.start_worker):
            with pytest.raises(UserError) as caught:
                ask()
            reasons.append(str(caught.value))
    assert reasons == ["Ray cannot be used: its process has ended."] * 3


class PlayedProcess:
    """A process that ends by itself, or by a signal only."""

    pid = 4711

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.options = command, options
        self.code, self.is_stubborn, self.waited = 0, False, list[float | None]()
        (descriptor,) = options["pass_fds"]
        self.end = socket.socket(fileno=os.dup(descriptor))

    def wait(self, seconds: float | None = None) -> int:
        self.waited.append(seconds)
        if self.is_stubborn:
            raise subprocess.TimeoutExpired("worker", 0.0)
        return self.code

    def kill(self) -> None:
        self.is_stubborn, self.code = False, -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "is_stubborn", "waited", "how"),
    [
        (0, False, [2.5], "exit code 0"),
        (3, False, [2.5], "exit code 3"),
        (-15, False, [2.5], "signal SIGTERM"),
        (0, True, [2.5, None], "signal SIGKILL"),
    ],
)
def test_a_worker_process_gets_its_start_and_tells_how_it_ended(
    code: int, is_stubborn: bool, waited: list[float | None], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.execution.executors.places.subprocess.Popen", started := _Started())
    monkeypatch.setenv("A_KEY_OF_THE_USER", "k")
    start = Start({"a": 1}, None, RunInfo(run_id="r"), "/f", ())

    async def play() -> None:
        host, channel = await ThisMachine(3).start_worker(start)
        (process,) = started.processes
        assert host.name == "4711"
        assert process.command == [sys.executable, str(WORKER), process.command[2]]
        assert process.options["pass_fds"] == [int(process.command[2])]
        assert process.options["stdin"] == subprocess.DEVNULL
        assert process.options["env"]["A_KEY_OF_THE_USER"] == "k"
        assert receive_start(process.end) == start
        channel.send(Failed("x"))
        await channel.close()
        assert process.end.recv(1) != b""
        process.end.close()
        process.code, process.is_stubborn = code, is_stubborn
        assert await host.end(2.5) == how
        assert process.waited == waited

    asyncio.run(play())


WORKER = Path(sys.modules[ThisMachine.__module__].__file__ or "").with_name("worker.py")


class _Started:
    def __init__(self) -> None:
        self.processes: list[PlayedProcess] = []

    def __call__(self, command: list[str], **options: Any) -> PlayedProcess:
        self.processes.append(PlayedProcess(command, **options))
        return self.processes[-1]


def test_a_sample_stays_where_it_is_on_this_machine() -> None:
    sample = Sample("q1", "?", Path("/a.csv"))
    assert ThisMachine(1).move(sample) is sample


def settings_of(executor: RaySettings, concurrency: int = 8) -> EvalConfig:
    """As much of a configuration as the place of a run needs."""
    run = SimpleNamespace(concurrency=concurrency)
    return cast(EvalConfig, SimpleNamespace(executor=executor, run=run, redact_tree=lambda tree: tree))


@pytest.mark.parametrize(
    ("workers", "cores", "concurrency", "n_runs", "n_cpus", "n_workers"),
    [(3, 7, 8, 1, 3, 3), (None, 7, 8, 1, 7, 7), (None, None, 8, 1, 1, 1), (9, 7, 8, 1, 8, 9), (2, 7, 8, 4, 4, 2),
     (9, 7, 1, 2, 2, 9)],
)  # fmt: skip
def test_a_ray_of_its_own_has_a_cpu_for_each_worker_that_can_be_busy(
    workers: int | None, cores: int | None, concurrency: int, n_runs: int, n_cpus: int, n_workers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    own, sample = ConnectedCluster(1.0), Sample("q1", "?", Path("a.csv"))
    monkeypatch.setattr(Cluster, "open", own.open)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    with open_place(settings_of(RaySettings(workers=workers), concurrency), {}, [sample], n_runs) as place:
        assert own.settings == [BridgeSettings(None, n_cpus)]
        assert place.n_workers == n_workers and place.move(sample) is sample, "its workers see this machine's files"


@dataclass
class EmptyPackage:
    """A package without files."""

    asked: list[tuple[object, ...]] = field(default_factory=list)
    folder: Path = Path("/package")
    config: dict[str, object] = field(default_factory=lambda: {"tracking": "off"})

    @contextmanager
    def open(self, *given: object) -> Iterator["EmptyPackage"]:
        self.asked.append(given)
        yield self

    def move(self, sample: Sample) -> Sample:
        return replace(sample, file=Path("moved"))


@pytest.mark.parametrize(
    ("n_cpus", "workers", "n_runs", "n_workers"),
    [(4.0, None, 1, 4), (4.9, None, 1, 4), (4.0, 9, 1, 9), (256.0, None, 1, 256), (300.0, None, 1, 256),
     (2.0, None, 2, 2), (1.0, None, 2, None), (0.5, None, 1, None)],
)  # fmt: skip
def test_a_cluster_has_as_many_workers_as_it_has_cpus(
    n_cpus: float, workers: int | None, n_runs: int, n_workers: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, package = ConnectedCluster(n_cpus), EmptyPackage()
    monkeypatch.setattr(Cluster, "open", cluster.open)
    monkeypatch.setattr("eval.execution.executors.cluster.run_cluster.open_package", package.open)
    config = settings_of(RaySettings(workers=workers, address="head:6379", files=["a"]))
    sample = Sample("q1", "?", Path("a.csv"))
    if n_workers is None:
        with pytest.raises(UserError) as refused, open_place(config, {"x": 1}, [sample], n_runs):
            pass
        assert str(refused.value) == (
            f"the cluster at executor.address=head:6379 has {int(n_cpus)} CPUs, and {n_runs} programs are compared at "
            f"the same time; add nodes until it has {n_runs} CPUs, or use executor=processes."
        )
    else:
        with open_place(config, {"x": 1}, [sample], n_runs) as place:
            assert place.n_workers == n_workers
            assert place.move(sample) == Sample("q1", "?", Path("moved"))
    assert package.asked == [(config, {"x": 1}, [sample], ["a"])]
    assert cluster.settings == [BridgeSettings("head:6379", 0, package="/package")]


@pytest.mark.parametrize("has_package", [True, False])
def test_workers_of_a_cluster_are_numbered_and_get_their_start_although_one_has_ended(
    has_package: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[object, Start]] = []
    ends = iter(["first", "second"])

    def send(end: object, start: Start) -> None:
        sent.append((end, start))
        raise BrokenPipeError

    async def open_channel(end: object) -> str:
        return f"channel of {end}"

    monkeypatch.setattr("eval.execution.executors.cluster.run_cluster.send_start", send)
    monkeypatch.setattr(Channel, "open", open_channel)
    cluster = cast(Cluster, SimpleNamespace(start_worker=lambda: next(ends)))
    place = RunCluster(cluster, cast(Any, EmptyPackage()) if has_package else None, 2)
    start = Start({"system": 1, "tracking": "local"}, None, RunInfo(), "/f", ("/p",), asks_budget=True)

    async def play() -> list[tuple[str, str, str]]:
        hosts = [await place.start_worker(start) for _ in range(2)]
        return [(host.name, str(channel), await host.end(1.0)) for host, channel in hosts]

    assert asyncio.run(play()) == [("actor 1", "channel of first", ""), ("actor 2", "channel of second", "")]
    expected = replace(start, config={"system": 1, "tracking": "off"}, path=()) if has_package else start
    assert sent == [("first", expected), ("second", expected)]
