"""Settings of worker processes and of a cluster."""

import os
import socket

import pytest

from eval.config import executor
from eval.config.executor import ProcessesSettings, RaySettings
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
