"""Messages between a run's process and its workers, over a pair of sockets that no other process can open.

    channel = await Channel.open(socket)
    channel.send(Answered(record))
    async for message in channel: ...        # ends when the other process has ended

Both processes run this same code with the same user's rights; so messages are pickled.
"""

import asyncio
import pickle
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from eval.benchmarks.dataset import Sample
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.llm.profiles.profile import Server
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import Payment, SampleKey

_LENGTH_BYTES = 8
_BOOT = Path("/proc/sys/kernel/random/boot_id")  # without it no two folders are known to be the same


@dataclass(frozen=True)
class Start:
    """First message to a worker: all that it builds the program from."""

    config: Mapping[str, object]  # resolved; secrets are in the environment
    prompts: PromptSet | None
    run_info: RunInfo
    folder: str  # of the run
    path: tuple[str, ...]  # where modules of the user are found; empty: where the worker finds them by itself
    asks_budget: bool = False  # before each request: the run's budget may refuse it
    identity: str | None = None  # of the folder (`identify_folder`): on another machine it is a different one, or none


@dataclass(frozen=True)
class Prompts:
    """To a worker: prompts of later trials."""

    digest: str
    prompts: PromptSet


@dataclass(frozen=True)
class Answer:
    """To a worker: answer a sample."""

    lease: int  # number of this message among those of all workers
    sample: Sample
    key: SampleKey
    replies: Mapping[str, str]  # that earlier sessions, or a worker that died, have paid for
    prompts: str | None = None  # digest of `Prompts`: it is a trial of a tuning run; None: those of `Start`


@dataclass(frozen=True)
class Cancel:
    """To a worker: break off what is in flight, report what it has cost, and end."""


@dataclass(frozen=True)
class Permitted:
    """To a worker: the outcome of `Ask`."""

    number: int
    pause_seconds: float | None = None  # the request cannot wait for so long; None: it may be sent


@dataclass(frozen=True)
class Reserved:
    """To a worker: the outcome of `Reserve`."""

    number: int
    limit: str | None = None  # that refuses the request; None: it is reserved
    message: str = ""
    refusal: str | None = None  # why nothing more may be sent for the sample, and it does not count as failed


@dataclass(frozen=True)
class Ready:
    """From a worker: it has built the program."""

    pid: int
    host: str


@dataclass(frozen=True)
class Failed:
    """From a worker: the program cannot be built, or the logs cannot be written."""

    message: str


@dataclass(frozen=True)
class Ask:
    """From a worker: a request waits for its turn at a server."""

    number: int  # of the request in this worker
    model: str  # whose rate limiter is asked: empty for the run's own model, else the key of a judge
    server: Server
    tokens: int
    patience_seconds: float


@dataclass(frozen=True)
class Reserve:
    """From a worker: a request of a sample asks the run's budget."""

    lease: int
    number: int  # of the request in this worker


@dataclass(frozen=True)
class Ended:
    """From a worker: a request has ended, or no longer waits."""

    number: int
    outcome: str | None = None  # success, rate_limit, server_error; None: it tells nothing about the server
    retry_after_seconds: float | None = None


@dataclass(frozen=True)
class Paid:
    """From a worker: the cost of a request of a sample; None if it was reserved and never sent."""

    lease: int
    payment: Payment | None


@dataclass(frozen=True)
class Replied:
    """From a worker: a reply to be kept until the sample's record is stored."""

    lease: int
    request: str
    reply: str


@dataclass(frozen=True)
class Answered:
    """From a worker: a sample has its record."""

    lease: int
    record: Record
    calls: bytes = b""  # of a trial: its `NamedCall`s, pickled where their classes are known


@dataclass(frozen=True)
class Logged:
    """From a worker that does not see the run's folder: lines of a log there."""

    name: str
    text: str


@dataclass(frozen=True)
class Lost:
    """From the host of a worker: the worker has died."""

    how: str


ToWorker = Prompts | Answer | Cancel | Permitted | Reserved
FromWorker = Ready | Failed | Ask | Reserve | Ended | Paid | Replied | Answered | Logged | Lost
Message = ToWorker | FromWorker


def send_start(end: socket.socket, start: Start) -> None:
    """Send the first message to a worker, before it has a loop."""
    end.sendall(_pack(start))


def pack(messages: Sequence[Message]) -> bytes:
    """Return messages as they are sent."""
    return _pack([*messages])


def _pack(value: object) -> bytes:
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


def identify_folder(folder: str) -> str | None:
    """Return what a folder has on all paths to it on this machine, and no folder of another machine has."""
    try:
        status = Path(folder).stat()
        return f"{_BOOT.read_text('utf-8').strip()} {status.st_dev} {status.st_ino}"
    except OSError:
        return None


def receive_start(end: socket.socket) -> Start | None:
    """Return the first message of the run's process; None if that has ended."""
    with end.makefile("rb", buffering=0) as file:
        size = file.read(_LENGTH_BYTES)
        data = bytearray()
        while size and len(data) < int.from_bytes(size, "big"):
            if not (part := file.read(int.from_bytes(size, "big") - len(data))):
                return None
            data += part
    start = pickle.loads(data) if data else None
    return start if isinstance(start, Start) else None


class Channel:
    """One end of the connection. Used on the event loop that it was opened on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._loop = asyncio.get_running_loop()
        self._unsent: list[Message] = []

    @classmethod
    async def open(cls, end: socket.socket) -> Self:
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, message: Message) -> None:
        """Send a message, together with those of the same turn of the loop; nothing if the other process has ended."""
        if not self._unsent:
            self._loop.call_soon(self.flush)
        self._unsent.append(message)

    def flush(self) -> None:
        """Hand over what was sent until now."""
        if self._unsent and not self._writer.is_closing():
            self._writer.write(pack(self._unsent))
        self._unsent = []

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            try:
                size = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), "big")
                messages = pickle.loads(await self._reader.readexactly(size))
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            for message in messages:
                yield message

    def abandon(self) -> None:
        """Close this end without waiting; nothing more comes."""
        self._writer.close()

    async def close(self) -> None:
        """Send what is left, and close this end."""
        self.flush()
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()
