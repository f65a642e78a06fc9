"""An actor hands on bytes between a worker's socket and its two callers, until the worker has ended."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from eval.execution.executors.cluster import ray_actor
from eval.execution.executors.cluster.ray_actor import CHUNK_BYTES, WorkerActor


def converse(
    work: Callable[[socket.socket], None],
    talk: Callable[[WorkerActor], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_actor, "run_worker", work)

    async def play() -> None:
        actor = WorkerActor()
        await actor.open()
        await talk(actor)
        actor._writer.close()  # otherwise it ends with the actor's process
        with suppress(ConnectionError):
            await actor._writer.wait_closed()

    asyncio.run(asyncio.wait_for(play(), 30))


def test_bytes_go_both_ways_and_the_end_of_the_worker_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def echo(end: socket.socket) -> None:
        worker = threading.current_thread()
        assert (worker.name, worker.daemon) == ("worker", True), "the actor's process need not wait for it"
        while data := end.recv(100):
            end.sendall(data.upper())

    async def talk(actor: WorkerActor) -> None:
        for data in (b"one", b"two"):
            await actor.deliver(data)
            assert await actor.collect() == data.upper()
        await actor.close()
        assert await actor.collect() == b""

    converse(echo, talk, monkeypatch)


def test_what_is_sent_at_once_has_a_size_that_ray_sends_within_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = bytes(range(256)) * 1000

    async def talk(actor: WorkerActor) -> None:
        received = []
        while data := await actor.collect():
            received.append(data)
        assert b"".join(received) == sent
        assert max(map(len, received)) <= CHUNK_BYTES == 65_536

    converse(lambda end: end.sendall(sent), talk, monkeypatch)


def test_a_worker_that_breaks_is_reported_with_the_end_of_its_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(end: socket.socket) -> None:
        raise ValueError("a defect")

    async def talk(actor: WorkerActor) -> None:
        with pytest.raises(RuntimeError, match=r"(?s)^Traceback .*\nValueError: a defect\n$"):
            await actor.collect()
        for _ in range(3):
            await actor.deliver(b"x")  # it is gone, which `collect` has said

    converse(fail, talk, monkeypatch)


def test_what_a_worker_sent_before_it_broke_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(end: socket.socket) -> None:
        end.sendall(b"before")
        raise ValueError("a defect")

    async def talk(actor: WorkerActor) -> None:
        assert await actor.collect() == b"before"
        with pytest.raises(RuntimeError, match="a defect"):
            await actor.collect()

    converse(fail, talk, monkeypatch)
