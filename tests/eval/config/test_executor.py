"""Settings of worker processes and of a cluster."""

import os
import socket
from collections.abc import Callable
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from eval.config import executor
from eval.config.executor import LocalSettings, ProcessesSettings, RaySettings
from mas.runtime.errors import UserError


def test_without_a_number_there_is_one_worker_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ProcessesSettings(workers=3).n_workers == 3
    for cores, workers in ((7, 7), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert ProcessesSettings().n_workers == workers


@pytest.mark.parametrize("workers", [None, 1, 256])
def test_a_number_within_the_range_is_accepted(workers: int | None) -> None:
    ProcessesSettings(workers=workers).check({})


@pytest.mark.parametrize("workers", [0, -1, 257])
def test_another_number_is_refused(workers: int) -> None:
    with pytest.raises(UserError, match=f"executor.workers={workers} is out of range; expected 1 to 256"):
        ProcessesSettings(workers=workers).check({})


def test_what_only_memory_holds_is_refused_but_data() -> None:
    target = {"target": "in-memory:Answers-3f2a91c0"}
    ProcessesSettings().check({"data": target, "system": {"target": "package:Program"}})
    with pytest.raises(UserError, match=r"^system and scorer: an object of this Python program"):
        ProcessesSettings().check({"data": target, "system": target, "scorer": target})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (RaySettings(workers=0), "executor.workers=0 is out of range"),
        (RaySettings(address="ray://10.0.0.5:10001"), "of Ray Client, which is not supported; give HOST:PORT"),
        (RaySettings(address="10.0.0.5"), "is no address; expected HOST:PORT of the cluster's head, such as"),
        (RaySettings(address="10.0.0.5:70000"), "is no address"),
        (RaySettings(files=["rates.csv"]), "executor.files is only for a cluster"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused(settings: RaySettings, words: str) -> None:
    with pytest.raises(UserError) as refused:
        settings.check({})
    assert words in str(refused.value)


def test_an_address_where_nothing_answers_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=f"executor.address={address}: nothing answers there .*ray start --head"):
            RaySettings(address=address).check({})


def test_without_ray_one_sentence_says_how_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    RaySettings().check({})
    monkeypatch.setattr(executor, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'mas-harness\[ray\]', or use executor=processes"):
        RaySettings().check({})


@pytest.mark.parametrize(("port", "is_taken"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_the_port_of_a_cluster_is_1_to_65535(port: int, is_taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def connect(address: tuple[str, int], seconds: float) -> socket.socket:
        asked.append(address)
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", connect)
    settings = RaySettings(address=f"[::1]:{port}")
    if is_taken:
        settings._check_address(str(settings.address))
        assert asked == [("::1", port)]
        return
    with pytest.raises(UserError, match="is no address; expected HOST:PORT of the cluster's head"):
        settings._check_address(str(settings.address))
    assert asked == []


def test_settings_of_executors_that_are_not_given_have_these_values() -> None:
    assert asdict(LocalSettings()) == {"name": "local"}
    assert asdict(ProcessesSettings()) == {"name": "processes", "workers": None}
    assert asdict(RaySettings()) == {"name": "ray", "workers": None, "address": None, "files": []}


def refusal_of(check: Callable[[], object]) -> str:
    with pytest.raises(UserError) as refused:
        check()
    return str(refused.value)


NO_ADDRESS = (
    "is no address; expected HOST:PORT of the cluster's head, such as 10.0.0.5:6379, or auto, or null for a Ray of its "
    "own on this machine."
)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            RaySettings(workers=257),
            "executor.workers=257 is out of range; expected 1 to 256, or null for one per core.",
        ),
        (RaySettings(files=["a"]), "executor.files is only for a cluster; leave it out, or give executor.address."),
        (
            RaySettings(address="ray://head:10001"),
            "executor.address=ray://head:10001 is an address of Ray Client, which is not supported; give HOST:PORT of "
            "the cluster's head on a machine that is a node of it, or start the command as a job there "
            "(deploy/ray/README.md).",
        ),
        *(
            (RaySettings(address=address), f"executor.address={address} {NO_ADDRESS}")
            for address in ("", "head", "head:", ":6379", "head:123456", "a b:1", "::1:6379", "http://head:1", "head:x")
        ),
    ],
)
def test_a_cluster_that_cannot_be_is_told_with_what_can(
    settings: RaySettings, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "find_spec", lambda name: name)
    monkeypatch.setattr(socket, "create_connection", lambda *given: pytest.fail("it is not asked"))
    assert refusal_of(lambda: settings.check({})) == said


def test_a_cluster_is_asked_at_its_address_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    looked_for: list[str] = []

    def connect(*given: object) -> SimpleNamespace:
        asked.append(given)
        return SimpleNamespace(close=lambda: asked.append("closed"))

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(executor, "find_spec", lambda name: looked_for.append(name) or name)  # type: ignore[func-returns-value]
    RaySettings(workers=1, address="my-head_1.example.org:6379", files=["a"]).check({})
    assert asked == [(("my-head_1.example.org", 6379), 5.0), "closed"] and looked_for == ["ray"]
    for address in ("auto", None):
        RaySettings(address=address, files=["a"] if address else []).check({})
    assert len(asked) == 2, "Ray finds these itself"

    def refuse(*given: object) -> None:
        raise OSError("refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert refusal_of(lambda: RaySettings(address="head:1").check({})) == (
        "executor.address=head:1: nothing answers there (refused); give the address of a running cluster's head, or "
        "start one with: ray start --head."
    )


def test_what_only_memory_holds_and_a_missing_ray_are_told_before_the_cluster_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor, "find_spec", lambda name: None)
    settings, target = RaySettings(address="no address"), {"target": "in-memory:Answers-3f2a91c0"}
    assert refusal_of(lambda: settings.check({"system": target})) == (
        "system: an object of this Python program cannot be built in worker processes; put it into a module and give "
        "package.module:name, or use executor=local."
    )
    assert refusal_of(lambda: settings.check({"data": target})) == (
        "executor=ray needs the package ray, which is not installed; install it with: pip install 'mas-harness[ray]', "
        "or use executor=processes."
    )
