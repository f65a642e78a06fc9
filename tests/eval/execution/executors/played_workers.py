"""Workers that a test plays itself: what they are sent is a list, and what they say comes from the test.

place = PlayedPlace()
keeping = asyncio.create_task(pool.keep_worker(2))
(worker,) = await place.wait_for(1)
await worker.say(Ready(7, "here"))
assert worker.sent == [Answer(…), …]
await worker.hang_up()
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from eval.benchmarks.dataset import Sample
from eval.execution.executors.channel import Answer, Answered, Cancel, Channel, Message, Ready, Start
from eval.execution.executors.contract import Host
from mas.runtime.errors import UserError
from tests.eval.stored_run import answered


async def let_others_run() -> None:
    """Let everything that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


@dataclass(eq=False)
class PlayedWorker:
    """A worker: its Host, and the Channel to it."""

    name: str = "worker 1"
    how: str = ""  # it ended, as its host says
    sent: list[Message] = field(default_factory=list)
    ended_within: list[float] = field(default_factory=list)  # seconds that it was given to end
    n_closed: int = 0
    is_abandoned: bool = False
    ends_by_itself: bool = True  # when it is cancelled
    _said: "asyncio.Queue[Message | None]" = field(default_factory=asyncio.Queue)

    async def say(self, *messages: Message) -> None:
        for each in messages:
            self._said.put_nowait(each)
        await let_others_run()

    async def hang_up(self) -> None:
        self._said.put_nowait(None)
        await let_others_run()

    async def end(self, seconds: float) -> str:
        self.ended_within.append(seconds)
        return self.how

    async def __aiter__(self) -> AsyncIterator[Message]:
        while (message := await self._said.get()) is not None:
            yield message

    def send(self, message: Message) -> None:
        self.sent.append(message)
        if isinstance(message, Cancel) and self.ends_by_itself:
            self._said.put_nowait(None)

    def abandon(self) -> None:
        self.is_abandoned = True
        self._said.put_nowait(None)

    async def close(self) -> None:
        self.n_closed += 1

    @property
    def leases(self) -> dict[str, int]:
        """Number of each question that it was given, by the question's id."""
        return {each.sample.id: each.lease for each in self.sent if isinstance(each, Answer)}


@dataclass(eq=False)
class PlayedPlace:
    """A Place; its workers have another folder for attachments."""

    n_workers: int = 1
    starts: list[Start] = field(default_factory=list)
    workers: list[PlayedWorker] = field(default_factory=list)
    refusal: str = ""  # why no worker can be started
    answer: Callable[[Answer], Message] | None = None  # what each of them says by itself; None: the test plays it

    def move(self, sample: Sample) -> Sample:
        return replace(sample, file=sample.file and Path("there") / sample.file.name)

    async def start_worker(self, start: Start) -> tuple[Host, Channel]:
        self.starts.append(start)
        await asyncio.sleep(0)  # meanwhile the others are started
        if self.refusal:
            raise UserError(self.refusal)
        worker = PlayedWorker(f"worker {len(self.starts)}") if self.answer is None else AnsweringWorker(self.answer)
        self.workers.append(worker)
        return cast(Host, worker), cast(Channel, worker)

    async def wait_for(self, number: int) -> list[PlayedWorker]:
        """Return the workers once there are so many."""
        await let_others_run()
        assert len(self.workers) == number
        return self.workers


class AnsweringWorker(PlayedWorker):
    """A worker that answers all that it is given."""

    def __init__(self, answer: Callable[[Answer], Message]) -> None:
        super().__init__()
        self._answer = answer
        self._said.put_nowait(Ready(7, "here"))

    def send(self, message: Message) -> None:
        super().send(message)
        if isinstance(message, Answer):
            self._said.put_nowait(self._answer(message))


def answer_all(message: Answer) -> Answered:
    return Answered(message.lease, answered(message.sample.id, "17"))
