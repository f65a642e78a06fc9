"""The event loop's clock, which leaves out the time in which nothing could run on the loop."""

import asyncio
import contextvars
import time
from collections.abc import Coroutine, Iterator
from contextlib import closing
from typing import TypeVar

import pytest

from mas.runtime import event_loop
from mas.runtime.event_loop import settle_pause, warn_of_block
from mas.runtime.loop_clock import BlockingCall, SteadyLoop, WatchTimes, now
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, use_context
from mas.runtime.trace import Trace, record_trace

BLOCKED_SECONDS = 1.2
T = TypeVar("T")
WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="nothing")


TIMES = WatchTimes(beat_seconds=0.1, pause_seconds=0.6, reported_seconds=0.8)


class Reports:
    def __init__(self) -> None:
        self.blocks: list[BlockingCall] = []
        self.pauses: list[tuple[float, BlockingCall | None]] = []
        self.loop = SteadyLoop(self.blocks.append, lambda seconds, call: self.pauses.append((seconds, call)), TIMES)


@pytest.fixture
def reports() -> Iterator[Reports]:
    found = Reports()
    yield found
    found.loop.close()


async def block(seconds: float = BLOCKED_SECONDS) -> None:
    time.sleep(seconds)  # noqa: ASYNC251


@pytest.mark.slow
def test_a_timeout_is_extended_by_the_time_in_which_the_loop_was_blocked(reports: Reports) -> None:
    async def work() -> float:
        async with asyncio.timeout(0.5):
            began = now()
            await asyncio.gather(asyncio.sleep(0.2), block())
            return now() - began

    began = time.monotonic()
    assert 0.2 <= reports.loop.run_until_complete(work()) < 0.5
    assert time.monotonic() - began > BLOCKED_SECONDS
    ((seconds, _),) = reports.pauses
    assert BLOCKED_SECONDS - TIMES.beat_seconds <= seconds < BLOCKED_SECONDS + 1


@pytest.mark.slow
def test_the_blocking_line_and_its_context_are_found_while_it_lasts(reports: Reports) -> None:
    async def work() -> None:
        WORD.set("of the blocker")
        await block()

    async def both() -> None:
        WORD.set("of another")
        await asyncio.gather(asyncio.sleep(0.1), asyncio.create_task(work()))
        await asyncio.sleep(0)

    reports.loop.run_until_complete(both())
    ((_, after),) = reports.pauses
    assert after is not None
    for call in (*reports.blocks, after):
        line = block.__code__.co_firstlineno + 1
        assert (call.where, call.context[WORD]) == (f"{__file__}:{line} in block", "of the blocker")
    assert len(reports.blocks) == 1


def answer_in_turn(first: SampleContext, second: SampleContext, trace: Trace) -> list[str]:
    """The first sample blocks the loop that both share; each may take half a second."""

    async def answer(context: SampleContext, *, blocking: bool) -> str:
        context.deadline = now() + 0.5
        try:
            with use_context(context):
                async with context.within_deadline(), context.within_working_time():
                    if blocking:
                        with record_trace(trace):
                            await block()
                    await asyncio.sleep(0.2)
        except LimitReachedError as error:
            return error.limit
        return "answered"

    async def both() -> list[str]:
        waiting = asyncio.create_task(answer(second, blocking=False))  # begins before the loop is blocked
        return [await asyncio.create_task(answer(first, blocking=True)), await waiting]

    return run_on_a_loop(both())


def run_on_a_loop(work: Coroutine[object, None, T]) -> T:
    """Run it on a loop like that of all agents, except for the times."""
    with closing(SteadyLoop(warn_of_block, settle_pause, TIMES)) as loop:
        return loop.run_until_complete(work)


@pytest.mark.slow
def test_only_the_sample_that_blocked_the_loop_pays_for_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "DEFAULT_TIMES", TIMES)
    logged: list[tuple[str, str, str]] = []
    trace = Trace("thread", lambda level, event, fields: logged.append((level, event, str(fields["where"]))))
    first, second = SampleContext(SampleKey("q1")), SampleContext(SampleKey("q2"))
    assert answer_in_turn(first, second, trace) == ["deadline_seconds", "answered"]
    where = f"{__file__}:{block.__code__.co_firstlineno + 1} in block"
    assert logged == [("warning", "event loop blocked", where)]
    warning = f"warning: {where} (question 'q1') has blocked the event loop for 0.8 s: everything else waits for it"
    assert capsys.readouterr().err.startswith(warning)
