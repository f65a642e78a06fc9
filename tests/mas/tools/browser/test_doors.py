"""The jail's doors: bytes pass both ways unchanged, each side's end is passed on, and a refusal closes the door."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mas.tools.browser import doors
from mas.tools.browser.doors import pass_to
from tests.mas.tools.browser.receiver import Receiver
from tests.servers.playwright_mcp import free_port

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def listen(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> tuple[asyncio.Server, int]:
    server = await asyncio.start_server(serve, "127.0.0.1")
    return server, int(server.sockets[0].getsockname()[1])


async def read_all(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    writer.write_eof()
    said = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return said


@pytest.mark.parametrize("piece", [1, 3, 2**16])
def test_bytes_pass_both_ways_and_the_end_of_one_side_reaches_the_other(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "PIECE_BYTES", piece)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read()  # until the end
        writer.write(b"you said " + asked)
        writer.close()

    async def scenario() -> bytes:
        inner, inner_port = await listen(answer)
        door, port = await listen(pass_to(lambda: asyncio.open_connection("127.0.0.1", inner_port)))
        async with inner, door:
            return await read_all(port, b"hello, browser")

    assert asyncio.run(scenario()) == b"you said hello, browser"


def test_a_door_behind_which_nobody_answers_is_closed() -> None:
    async def refuse() -> _Streams:
        raise ConnectionRefusedError

    async def scenario() -> bytes:
        door, port = await listen(pass_to(refuse))
        async with door:
            return await read_all(port, b"")

    assert asyncio.run(scenario()) == b""


class Server:
    """The browser's server, played: it runs until the event."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.started: list[tuple[tuple[str, ...], dict[str, object]]] = []

    async def start(self, *command: str, **how: object) -> "Server":
        self.started.append((command, how))
        return self

    async def wait(self) -> int:
        await self.ended.wait()
        return 7


class Openings:
    """What the program opens, which its own end would close."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[asyncio.Server | socket.socket] = []
        self._start = asyncio.start_server
        monkeypatch.setattr(asyncio, "start_server", self.start)
        monkeypatch.setattr(doors, "socket", SimpleNamespace(socket=self.take))

    async def start(self, *given: Any, **how: Any) -> asyncio.Server:
        server = await self._start(*given, **how)
        self.found.append(server)
        return server

    def take(self, fileno: int) -> socket.socket:
        taken = socket.socket(fileno=fileno)
        self.found.append(taken)
        return taken

    def close(self) -> None:
        for each in reversed(self.found):  # a server before its socket
            each.close()


def saying(words: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words + await reader.read())
        writer.close()

    return answer


async def ask_until_it_is_open(port: int, sent: bytes) -> bytes:
    while True:
        try:
            return await read_all(port, sent)
        except ConnectionRefusedError:
            await asyncio.sleep(0)


def test_the_front_door_opens_once_the_server_listens_and_the_other_leads_to_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "RETRY_SECONDS", 0.0)

    async def scenario() -> None:
        server, port, proxy_port, openings = Server(), free_port(), free_port(), Openings(monkeypatch)
        monkeypatch.setattr(asyncio, "create_subprocess_exec", server.start)
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        front = int(listener.getsockname()[1])
        proxy = await asyncio.start_unix_server(saying(b"proxy: "), tmp_path / "proxy.sock")
        settings = {"port": port, "proxy_port": proxy_port, "proxy": str(tmp_path / "proxy.sock")}
        settings |= {"listener": listener.detach(), "environment": {"A": "b"}}
        running = asyncio.create_task(doors.run_server(settings, ["node", "cli.js"]))
        assert await ask_until_it_is_open(proxy_port, b"out") == b"proxy: out", "open from the beginning"
        assert server.started == [(("node", "cli.js"), {"env": {"A": "b"}})]
        with pytest.raises(ConnectionRefusedError):
            await read_all(front, b"too early")
        async with proxy, await asyncio.start_server(saying(b"server: "), "127.0.0.1", port):
            assert await ask_until_it_is_open(front, b"in") == b"server: in"
            assert await read_all(front, b"") == b"server: ", "for every connection"
            assert not running.done()
            server.ended.set()
            assert await running == 7
        openings.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_server_that_ends_before_it_listens_gives_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> int:
        server, listener, openings = Server(), socket.socket(), Openings(monkeypatch)
        server.ended.set()
        monkeypatch.setattr(asyncio, "create_subprocess_exec", server.start)
        listener.bind(("127.0.0.1", 0))
        settings = {"port": free_port(), "proxy_port": free_port(), "proxy": str(tmp_path / "proxy.sock")}
        settings |= {"listener": listener.detach(), "environment": {}}
        code = await doors.run_server(settings, ["node"])
        openings.close()
        return code

    assert asyncio.run(asyncio.wait_for(scenario(), 20)) == 7


@pytest.mark.parametrize(
    ("receiver", "got"),
    [
        (Receiver(5), [b"ab", b"c", "end"]),
        (Receiver(5, takes_an_end=False), [b"ab", b"c"]),
        (Receiver(1), [b"ab", b"c", "closed"]),
        (Receiver(0), [b"ab", "closed"]),
    ],
)
def test_the_end_of_a_sender_is_passed_on_and_a_receiver_that_is_gone_is_closed(
    receiver: Receiver, got: list[bytes | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "PIECE_BYTES", 2)

    async def copy() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(b"abc")
        reader.feed_eof()
        await doors._copy(reader, cast(asyncio.StreamWriter, receiver))

    asyncio.run(copy())
    assert receiver.got == got
