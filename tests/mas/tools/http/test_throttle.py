"""The pace to a service: a few at once, then one after the other, for all questions together."""

import asyncio
import time

from mas.runtime.sample_context import SampleContext, SampleKey, SampleLimits, use_context
from mas.tools.http import throttle as pace


def seconds(service: str, per_minute: float | None, calls: int) -> float:
    async def ask() -> None:
        await asyncio.gather(*(pace.wait_for_turn(service, per_minute) for _ in range(calls)))

    started = time.monotonic()
    asyncio.run(ask())
    return time.monotonic() - started


def test_a_burst_goes_at_once_and_the_rest_keeps_the_rate() -> None:
    assert seconds("burst", 600, pace.BURST) < 0.09
    assert seconds("burst", 600, 3) >= 0.2


def test_each_service_has_its_own_and_none_is_no_limit() -> None:
    seconds("one", 60, pace.BURST)
    assert seconds("two", 60, 1) < 0.5
    assert seconds("one", None, 100) < 0.5


def test_waiting_for_the_pace_is_not_work_of_the_question() -> None:
    question = SampleContext(SampleKey("q1"), SampleLimits())

    async def ask() -> None:
        with use_context(question):
            for _ in range(pace.BURST + 2):
                await pace.wait_for_turn("work", 600)

    asyncio.run(ask())
    assert question.usage.waited_seconds >= 0.1
