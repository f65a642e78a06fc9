"""The jail's doors: bytes pass both ways unchanged, each side's end is passed on, and a refusal closes the door."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mas.tools.browser import doors
from mas.tools.browser.doors import pass_to

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
