"""Messages between two ends of a connection: whole, in order, several at once, until the other end is gone."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.execution.executors.channel import (
    Cancel,
    Channel,
    Failed,
    Lost,
    Message,
    Reserve,
    Start,
    identify_folder,
    pack,
    receive_start,
    send_start,
)
from eval.runs.run_info import RunInfo

START = Start({"a": 1}, None, RunInfo(run_id="r1"), "folder", ("x",), asks_budget=True)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


async def receive_all(end: socket.socket) -> list[Message]:
    channel = await Channel.open(end)
    messages = [each async for each in channel]
    await channel.close()
    return messages


@pytest.mark.anyio
async def test_messages_arrive_in_order_until_the_other_end_closes(ends: tuple[socket.socket, socket.socket]) -> None:
    channel = await Channel.open(ends[0])
    receiving = asyncio.create_task(receive_all(ends[1]))
    sent = [Reserve(n // 3, n) for n in range(1_000)]
    for message in sent:
        channel.send(message)
        if message.number % 7 == 0:
            await asyncio.sleep(0)
    await channel.close()
    assert await receiving == sent


@pytest.mark.anyio
async def test_what_is_sent_in_one_turn_of_the_loop_is_one_message(ends: tuple[socket.socket, socket.socket]) -> None:
    channel = await Channel.open(ends[0])
    sent = [Reserve(1, 1), Reserve(1, 2), Failed("why")]
    for message in sent:
        channel.send(message)
    await asyncio.sleep(0.01)
    ends[1].setblocking(False)
    assert ends[1].recv(2**16) == pack(sent)
    channel.send(Cancel())
    channel.flush()
    await asyncio.sleep(0.01)
    assert ends[1].recv(2**16) == pack([Cancel()]), "and not what was handed over before"
    await channel.close()


@pytest.mark.anyio
async def test_a_message_that_is_cut_short_is_the_end(ends: tuple[socket.socket, socket.socket]) -> None:
    receiving = asyncio.create_task(receive_all(ends[1]))
    whole = pack([Failed("first")])
    ends[0].sendall(whole + pack([Failed("second")])[:-1])
    ends[0].close()
    assert await receiving == [Failed("first")]


@pytest.mark.anyio
async def test_sending_to_an_end_that_is_gone_is_no_error(ends: tuple[socket.socket, socket.socket]) -> None:
    channel = await Channel.open(ends[0])
    ends[1].close()
    for _ in range(3):
        channel.send(Failed("x" * 2**16))
        await asyncio.sleep(0.01)
    channel.abandon()
    channel.send(Failed("later"))
    await channel.close()


def test_the_first_message_arrives_before_there_is_a_loop(ends: tuple[socket.socket, socket.socket]) -> None:
    large = Start({"text": "x" * 2**20}, None, RunInfo(run_id="r2"), "folder", ())
    for start in (START, large):
        sending = threading.Thread(target=send_start, args=(ends[0], start))
        sending.start()
        assert receive_start(ends[1]) == start
        sending.join()


def test_a_first_message_that_does_not_come_is_none(ends: tuple[socket.socket, socket.socket]) -> None:
    send_start(ends[0], START)
    whole = ends[1].recv(2**16)
    for cut in (0, 8, len(whole) // 2, len(whole) - 1):
        one, other = socket.socketpair()
        with other:
            with one:
                one.sendall(whole[:cut])
            assert receive_start(other) is None
    one, other = socket.socketpair()
    with other:
        with one:
            one.sendall(pack([Lost("it is none")]))
        assert receive_start(other) is None


def test_a_folder_is_the_same_on_all_paths_to_it_and_no_other_one_is(tmp_path: Path) -> None:
    folder, other, link = tmp_path / "folder", tmp_path / "other", tmp_path / "link"
    folder.mkdir()
    other.mkdir()
    link.symlink_to(folder)
    assert identify_folder(str(folder)) == identify_folder(str(link)) != identify_folder(str(other))
    assert identify_folder(str(folder)) is not None and identify_folder(str(tmp_path / "none")) is None
