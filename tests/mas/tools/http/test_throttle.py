"""The pace to a service: a few at once, then one after the other, for all questions together."""

import asyncio
import time

import pytest

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


def test_the_turns_follow_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, waits = [1_000.0], list[float]()

    async def record(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(pace, "_next_free", {})
    monkeypatch.setattr(pace, "sleep", record)
    monkeypatch.setattr(pace.time, "monotonic", lambda: clock[0])

    async def ask(calls: int) -> list[float]:
        waits.clear()
        for _ in range(calls):
            await pace.wait_for_turn("service", 60)  # one a second
        return list(waits)

    assert asyncio.run(ask(12)) == [1.0, 2.0], "ten at once, then one after the other"
    clock[0] += 4
    assert asyncio.run(ask(4)) == [1.0, 2.0], "two had waited for theirs, and two are free again"
    clock[0] += 3_600
    assert asyncio.run(ask(11)) == [1.0], "a long pause saves up no more than a few"
