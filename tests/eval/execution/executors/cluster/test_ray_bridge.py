"""The process between a run and a cluster, without Ray: a module of the test's own stands in for it."""

import asyncio
import importlib
import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from eval.execution.executors.channel import Channel, Failed, Lost, Message, pack
from eval.execution.executors.cluster.connection import BridgeSettings

BRIDGE = "eval.execution.executors.cluster.ray_bridge"


class RayError(Exception):
    pass


class RayTaskError(RayError):
    cause: Exception | None = None


class PlayedActor:
    """A WorkerActor, as Ray has it: its methods are asked for with `remote`."""

    def __init__(self) -> None:
        self.delivered: list[bytes] = []
        self.is_closed = asyncio.Event()
        self.collected: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.opened: object = None  # an error, or never
        for name in ("open", "deliver", "collect", "close"):
            setattr(self, name, SimpleNamespace(remote=getattr(self, f"_{name}")))

    def _open(self) -> SimpleNamespace:
        return SimpleNamespace(future=lambda: self.opened)

    async def _deliver(self, data: bytes) -> None:
        self.delivered.append(data)

    async def _collect(self) -> bytes:
        found = await self.collected.get()
        if isinstance(found, Exception):
            raise found
        return found

    async def _close(self) -> None:
        self.is_closed.set()


class PlayedRay(ModuleType):
    """The parts of Ray that are used, and what they were asked for."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.started: list[dict[str, Any]] = []
        self.options: list[dict[str, Any]] = []
        self.actors: list[PlayedActor] = []
        self.killed: list[PlayedActor] = []
        self.n_shutdowns = 0
        self.failure: BaseException | None = None
        self.resources: dict[str, float] = {"CPU": 3.0}
        self.make_actor: Callable[[], PlayedActor] = PlayedActor

    def init(self, **options: Any) -> None:
        self.started.append(options)
        if self.failure is not None:
            raise self.failure

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def shutdown(self) -> None:
        self.n_shutdowns += 1

    def remote(self, kind: type) -> SimpleNamespace:
        assert kind.__name__ == "WorkerActor"

        def options(**given: Any) -> SimpleNamespace:
            self.options.append(given)
            return SimpleNamespace(remote=self._start)

        return SimpleNamespace(options=options)

    def _start(self) -> PlayedActor:
        self.actors.append(self.make_actor())
        return self.actors[-1]

    def kill(self, actor: PlayedActor) -> None:
        self.killed.append(actor)
        raise RayError("it has ended already")


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    played = PlayedRay()
    actor, exceptions = ModuleType("ray.actor"), ModuleType("ray.exceptions")
    actor.ActorHandle = PlayedActor  # type: ignore[attr-defined]
    exceptions.RayError, exceptions.RayTaskError = RayError, RayTaskError  # type: ignore[attr-defined]
    for name, module in (("ray", played), ("ray.actor", actor), ("ray.exceptions", exceptions)):
        monkeypatch.setitem(sys.modules, name, module)
    return played


@pytest.fixture
def bridge(ray: PlayedRay, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delitem(sys.modules, BRIDGE, raising=False)
    module = importlib.import_module(BRIDGE)
    monkeypatch.setattr(asyncio, "wrap_future", _wrap)
    yield module
    sys.modules.pop(BRIDGE, None)


def _wrap(future: object) -> Any:
    async def wait() -> None:
        if isinstance(future, Exception):
            raise future
        if future == "never":
            await asyncio.sleep(60)

    return wait()


def test_a_ray_of_its_own_is_started_for_this_user_alone(bridge: Any, ray: PlayedRay) -> None:
    assert bridge.connect(BridgeSettings(None, 4, "/tmp/mas-ray-x")) == 3.0
    assert ray.started == [
        {
            "address": "local", "num_cpus": 4, "object_store_memory": 80 * 2**20, "include_dashboard": False,
            "configure_logging": False, "_temp_dir": "/tmp/mas-ray-x/ray",
            "_node_ip_address": "127.0.0.2" if sys.platform == "linux" else "127.0.0.1",
        }
    ]  # fmt: skip


@pytest.mark.parametrize(("package", "files"), [("/package", {"working_dir": "/package"}), (None, None)])
def test_another_one_is_connected_to_with_the_files_of_the_run(
    package: str | None, files: object, bridge: Any, ray: PlayedRay
) -> None:
    ray.resources = {}
    assert bridge.connect(BridgeSettings("10.0.0.5:6379", 0, "/tmp/x", package)) == 0.0
    options = {"address": "10.0.0.5:6379", "runtime_env": files, "log_to_driver": False, "configure_logging": False}
    assert ray.started == [options]


class Relay:
    """A run's end of one worker's connection, and its actor."""

    def __init__(self, bridge: Any, ray: PlayedRay) -> None:
        self.bridge, self.ray = bridge, ray

    def run(self, play: Callable[["Relay"], Any], actor: PlayedActor | None = None, opened: object = None) -> None:
        async def relay() -> None:
            self.actor = actor or PlayedActor()
            self.actor.opened = opened
            self.ray.make_actor = lambda: self.actor
            ours, its = socket.socketpair()
            self.relaying = asyncio.create_task(self.bridge._relay(its))
            self.channel = await Channel.open(ours)
            await play(self)
            await self.relaying
            await self.channel.close()

        asyncio.run(asyncio.wait_for(relay(), 30))

    async def receive(self) -> list[Message]:
        return [each async for each in self.channel]


@pytest.fixture
def relay(bridge: Any, ray: PlayedRay) -> Relay:
    return Relay(bridge, ray)


def test_messages_go_both_ways_until_the_run_closes_its_end(relay: Relay, ray: PlayedRay) -> None:
    async def play(made: Relay) -> None:
        made.channel.send(Failed("to the worker"))
        made.actor.collected.put_nowait(pack([Failed("to the run")]))
        assert await anext(aiter(made.channel)) == Failed("to the run")
        made.channel.abandon()
        await made.actor.is_closed.wait()
        assert b"".join(made.actor.delivered) == pack([Failed("to the worker")])
        assert not made.relaying.done(), "the worker reports what its requests have cost"
        made.actor.collected.put_nowait(b"")

    relay.run(play)
    assert ray.options == [{"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}]
    assert ray.killed == ray.actors


def test_a_worker_that_ends_by_itself_ends_the_connection(relay: Relay, ray: PlayedRay) -> None:
    async def play(made: Relay) -> None:
        made.actor.collected.put_nowait(pack([Failed("last")]))
        made.actor.collected.put_nowait(b"")
        assert await made.receive() == [Failed("last")]

    relay.run(play)
    assert ray.killed == ray.actors


def task_error() -> RayTaskError:
    error = RayTaskError("short")
    error.cause = ValueError("Traceback\n  deep\nValueError: a defect\n")
    return error


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (RayError("The actor died.\nMore of it."), "RayError: The actor died."),
        (task_error(), "ValueError: a defect"),
        (OSError(), "OSError: "),
        (RayTaskError(" \n"), "RayTaskError: "),
        (RayError("x" * 400), f"RayError: {'x' * 290}"),
        (RayTaskError("y" * 400), "y" * 300),
    ],
)
def test_a_worker_that_dies_is_lost_with_the_first_line_of_its_reason(
    error: Exception, how: str, relay: Relay, ray: PlayedRay
) -> None:
    async def play(made: Relay) -> None:
        made.actor.collected.put_nowait(error)
        assert await made.receive() == [Lost(how)]

    relay.run(play)
    assert ray.killed == ray.actors


def test_a_worker_for_which_no_node_has_room_is_lost(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay.bridge, "START_SECONDS", 0.01)

    async def play(made: Relay) -> None:
        assert await made.receive() == [Lost("OSError: no node of the cluster has had a free CPU for 0.01 s")]

    relay.run(play, opened="never")


def test_a_worker_that_cannot_be_started_is_lost(relay: Relay) -> None:
    async def play(made: Relay) -> None:
        assert await made.receive() == [Lost("RayError: no actor")]

    relay.run(play, opened=RayError("no actor"))


def test_a_worker_that_does_not_end_is_not_waited_for_for_ever(
    relay: Relay, ray: PlayedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay.bridge, "CLOSE_SECONDS", 0.01)

    async def play(made: Relay) -> None:
        made.channel.abandon()
        await made.relaying

    relay.run(play)
    assert ray.killed == ray.actors


def test_a_worker_is_started_for_each_connection_until_the_run_has_ended(
    bridge: Any, ray: PlayedRay, tmp_path: Path
) -> None:
    ours, control = socket.socketpair()
    settings = BridgeSettings(None, 2, str(tmp_path / "ray"))
    (tmp_path / "ray").mkdir()
    ended: list[bytes] = []

    def make_actor() -> PlayedActor:
        actor = PlayedActor()
        actor.collected.put_nowait(pack([Failed(f"worker {len(ray.actors)}")]))
        actor.collected.put_nowait(b"")
        return actor

    ray.make_actor = make_actor
    workers = [socket.socketpair() for _ in range(2)]
    for _, its in workers:
        socket.send_fds(ours, [b"w"], [its.fileno()])
        its.close()
    ours.shutdown(socket.SHUT_WR)
    bridge.run_bridge(control, settings)
    control.close()
    assert json.loads(ours.makefile("rb").readline()) == {"cpus": 3.0}
    for end, _ in workers:
        with end, end.makefile("rb") as file:
            ended.append(file.read())
    assert sorted(ended) == [pack([Failed(f"worker {number}")]) for number in range(2)]
    assert (ray.n_shutdowns, len(ray.actors), (tmp_path / "ray").exists()) == (1, 2, False)
    ours.close()


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (ConnectionError("no route\nat all"), "ConnectionError: no route"),
        (SystemExit("wrong version"), "SystemExit: wrong version"),
    ],
)
def test_a_cluster_that_cannot_be_connected_is_told_and_nothing_is_left(
    failure: BaseException, said: str, bridge: Any, ray: PlayedRay, tmp_path: Path
) -> None:
    ray.failure = failure
    ours, control = socket.socketpair()
    (tmp_path / "ray").mkdir()
    with ours, control:
        bridge.run_bridge(control, BridgeSettings(None, 2, str(tmp_path / "ray")))
        assert json.loads(ours.makefile("rb").readline()) == {"error": said}
    assert (ray.n_shutdowns, (tmp_path / "ray").exists()) == (1, False)
