"""The process that connects a run to a cluster: how it is started, what it answers, and its end. The tests play it."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eval.cli.paths import PROJECT_ROOT
from eval.execution.executors.cluster import connection
from eval.execution.executors.cluster.connection import BridgeSettings, Cluster
from mas.runtime.errors import UserError

OWN = BridgeSettings(None, n_workers=4)
OTHER = BridgeSettings("10.0.0.5:6379", n_workers=0, package="/package")


class PlayedBridge:
    """A process, and its end of the connection."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.options = command, options
        self.ends: list[object] = []
        self.is_stubborn = False
        (descriptor,) = options["pass_fds"]
        assert command[3] == str(descriptor)
        self.control = socket.socket(fileno=os.dup(descriptor))
        self.folder = Path(BridgeSettings(**json.loads(command[4])).folder)
        assert self.folder.is_dir() and self.folder.stat().st_mode & 0o777 == 0o700

    def say(self, text: str) -> None:
        self.control.sendall(text.encode())

    def wait(self, seconds: float | None = None) -> int:
        self.ends.append(seconds)
        if self.is_stubborn and seconds is not None:
            raise subprocess.TimeoutExpired("bridge", seconds)
        return 0

    def kill(self) -> None:
        self.ends.append("killed")


@pytest.fixture
def bridges(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PlayedBridge]]:
    started: list[PlayedBridge] = []

    def start(command: list[str], **options: Any) -> PlayedBridge:
        started.append(PlayedBridge(command, **options))
        return started[-1]

    monkeypatch.setattr(connection.subprocess, "Popen", start)
    yield started
    for each in started:
        each.control.close()


def refusal(ask: Callable[[], object]) -> str:
    with pytest.raises(UserError) as refused:
        ask()
    return str(refused.value)


def test_the_process_is_one_of_its_own_and_its_folder_goes_with_it(bridges: list[PlayedBridge]) -> None:
    with Cluster.open(OWN) as cluster:
        (bridge,) = bridges
        assert re.fullmatch(r"/tmp/mas-ray-\w+", cluster.settings.folder)
        assert bridge.command[:3] == [sys.executable, "-m", "eval.execution.executors.cluster.ray_bridge"]
        assert (
            bridge.command[4]
            == cluster.settings.to_json()
            == (f'{{"address": null, "n_workers": 4, "folder": "{bridge.folder}", "package": null}}')
        )
        null = subprocess.DEVNULL
        options = {name: value for name, value in bridge.options.items() if name not in ("env", "pass_fds")}
        assert options == {"stdin": null, "stdout": null, "start_new_session": True}
        bridge.say('{"cpus": 3}\n')
        assert (cluster.wait(), cluster.wait()) == (3.0, 3.0), "it is asked once"
        assert bridge.ends == []
    assert bridge.ends == [20.0] and not bridge.folder.exists()
    assert bridge.control.recv(1) == b"", "the run's end is closed"


def test_the_process_is_killed_if_it_does_not_end(bridges: list[PlayedBridge]) -> None:
    with pytest.raises(ZeroDivisionError), Cluster.open(OWN):
        bridges[0].is_stubborn = True
        raise ZeroDivisionError
    assert bridges[0].ends == [20.0, "killed", None] and not bridges[0].folder.exists()


@pytest.mark.parametrize("settings", [OWN, OTHER])
def test_a_ray_of_its_own_gets_a_token_and_another_one_is_found_by_the_user_s_variables(
    settings: BridgeSettings, bridges: list[PlayedBridge], monkeypatch: pytest.MonkeyPatch
) -> None:
    users = dict.fromkeys(("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"), "the user's")
    for name, value in {**users, "PYTHONPATH": "/mine", "SECRET_OF_THE_TEST": "s"}.items():
        monkeypatch.setenv(name, value)
    with Cluster.open(settings):
        environment = bridges[0].options["env"]
    assert environment["PYTHONPATH"] == f"{PROJECT_ROOT}{os.pathsep}/mine"
    assert environment["SECRET_OF_THE_TEST"] == "s", "workers on this machine inherit it"
    assert [environment[name] for name in sorted(environment) if name.startswith("RAY_") and "AUTH" not in name] == (
        ["0", *(["the user's"] if settings is OTHER else []), "0", "20"]
    )
    given = {name: environment.get(name) for name in users}
    if settings is OTHER:
        assert given == users
        return
    token = given.pop("RAY_AUTH_TOKEN")
    assert given == {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": None, "RAY_ADDRESS": None}
    assert re.fullmatch("[0-9a-f]{64}", token or "")
    monkeypatch.delenv("PYTHONPATH")
    with Cluster.open(settings):
        environment = bridges[1].options["env"]
    assert environment["PYTHONPATH"] == str(PROJECT_ROOT) and environment["RAY_AUTH_TOKEN"] != token


@pytest.mark.parametrize(
    ("settings", "answer", "said"),
    [
        (OWN, '{"error": "no room"}\n', "Ray cannot be used: no room."),
        (OWN, "", "Ray cannot be used: its process has ended."),
        (
            OTHER,
            '{"error": "no route"}\n',
            "the cluster at executor.address=10.0.0.5:6379 cannot be used: no route; the command must run on a node of "
            "that cluster, with the same versions of Ray and Python.",
        ),
    ],
)
def test_a_cluster_that_cannot_be_used_says_why_each_time(
    settings: BridgeSettings, answer: str, said: str, bridges: list[PlayedBridge]
) -> None:
    with Cluster.open(settings) as cluster:
        bridges[0].say(answer)
        bridges[0].control.close()
        assert [refusal(ask) for ask in (cluster.wait, cluster.start_worker, cluster.wait)] == [said] * 3
        assert len(bridges) == 1


def test_a_cluster_that_does_not_answer_is_not_waited_for_for_ever(
    bridges: list[PlayedBridge], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_CONNECT_SECONDS", 0.01)
    with Cluster.open(OWN) as cluster:
        began = time.monotonic()
        assert refusal(cluster.wait) == "Ray cannot be used: no answer within 0.01 s."
        assert time.monotonic() - began < 10


def test_a_connection_that_was_lost_says_so(bridges: list[PlayedBridge]) -> None:
    with Cluster.open(OWN) as cluster:
        cluster._control.close()
        assert refusal(cluster.wait) == "Ray cannot be used: [Errno 9] Bad file descriptor."


def receive_worker(bridge: PlayedBridge) -> socket.socket:
    message, descriptors, _, _ = socket.recv_fds(bridge.control, 1, 1)
    assert message == b"w"
    return socket.socket(fileno=descriptors[0])


def test_each_worker_is_a_connection_of_its_own(bridges: list[PlayedBridge]) -> None:
    with Cluster.open(OWN) as cluster:
        bridges[0].say('{"cpus": 2}\n')
        for number in range(2):
            with cluster.start_worker() as ours, receive_worker(bridges[0]) as its:
                ours.sendall(b"%d" % number)
                assert its.recv(9) == b"%d" % number
                its.close()
                assert ours.recv(9) == b"", "nobody else holds its end"
        assert len(bridges) == 1


def test_a_cluster_that_has_ended_is_started_again_for_the_next_worker(
    bridges: list[PlayedBridge], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster.open(OWN) as cluster:
        bridges[0].say('{"cpus": 2}\n')
        cluster.wait()
        bridges[0].control.close()
        start = Cluster._start

        def start_and_answer(again: Cluster) -> None:
            start(again)
            bridges[-1].say('{"cpus": 5}\n')

        monkeypatch.setattr(Cluster, "_start", start_and_answer)
        with cluster.start_worker() as ours, receive_worker(bridges[1]) as its:
            its.sendall(b"x")
            assert ours.recv(9) == b"x"
        assert (bridges[0].ends, bridges[0].folder.exists(), cluster.wait()) == ([0.0], False, 5.0)
        assert bridges[1].folder.exists() and len(bridges) == 2
    assert not bridges[1].folder.exists()
    with suppress(OSError):
        cluster.close()
