"""Limits of one question, and the time that it waits."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from mas.runtime.sample_context import (
    LimitReachedError,
    SampleContext,
    SampleKey,
    SampleLimits,
    use_context,
)


def question(**limits: float) -> SampleContext:
    return SampleContext(SampleKey("q"), SampleLimits(**limits))  # type: ignore[arg-type]


def test_a_call_too_many_is_refused_before_it_is_made() -> None:
    asked = question(lm_calls=2)
    asked.count_lm_call()
    asked.count_lm_call()
    with pytest.raises(LimitReachedError, match=r"its 2 calls .* \(limits\.lm_calls\)") as raised:
        asked.count_lm_call()
    assert (raised.value.limit, asked.usage.lm_calls) == ("lm_calls", 2)


@pytest.mark.parametrize(("limit", "allowed"), [("tokens", 100), ("cost_usd", 0.01)])
def test_what_is_used_up_stops_the_next_call(limit: str, allowed: float) -> None:
    asked = question(**{limit: allowed})
    asked.count_lm_call()
    asked.record_reply(99, 0.0075)
    asked.count_lm_call()
    asked.record_reply(1, 0.0025)
    with pytest.raises(LimitReachedError) as raised:
        asked.count_lm_call()
    assert raised.value.limit == limit


def test_an_unknown_price_adds_tokens_and_no_money() -> None:
    asked = SampleContext(SampleKey("q"))
    asked.record_reply(10, None)
    asked.record_reply(10, 0.5)
    assert (asked.usage.tokens, asked.usage.cost_usd) == (20, 0.5)


def test_tool_calls_have_a_limit_of_their_own() -> None:
    asked = question(tool_calls=1)
    asked.count_tool_call()
    asked.count_lm_call()
    with pytest.raises(LimitReachedError, match="tool calls"):
        asked.count_tool_call()


def test_waiting_is_counted_once_for_calls_that_wait_side_by_side() -> None:
    asked = question()

    async def wait() -> None:
        with asked.count_waiting():
            await asyncio.sleep(0.3)

    async def work() -> None:
        await asyncio.gather(wait(), wait(), wait())

    began = time.monotonic()
    asyncio.run(work())
    assert 0.3 <= asked.usage.waited_seconds <= time.monotonic() - began


@pytest.mark.parametrize("end", ["closed", "out of time"])
def test_nothing_is_spent_for_a_question_that_is_over(end: str) -> None:
    asked = question()
    if end == "closed":
        asked.close()
    else:
        asked.deadline = time.monotonic()
    for spend in (asked.count_lm_call, asked.count_tool_call):
        with pytest.raises(LimitReachedError) as raised:
            spend()
        assert raised.value.limit == "deadline_seconds"
    assert (asked.usage.lm_calls, asked.usage.tool_calls) == (0, 0)
    assert asked.limit_reached == (None if end == "closed" else "deadline_seconds")


@pytest.mark.parametrize("end", ["closed", "out of time"])
def test_what_is_done_for_a_thread_ends_with_the_question(end: str) -> None:
    async def work() -> None:
        asked = SampleContext(SampleKey("q"), deadline=time.monotonic() + (60 if end == "closed" else 0.05))
        if end == "closed":
            asyncio.get_running_loop().call_later(0.05, asked.close)
        async with asked.within_deadline():
            await asyncio.sleep(60)

    began = time.monotonic()
    with pytest.raises(LimitReachedError, match="the question is over"):
        asyncio.run(work())
    assert time.monotonic() - began < 50


def test_the_start_time_is_the_same_in_every_session_of_a_sample() -> None:
    class Log(dict[str, str]):
        def put(self, key: str, reply: str) -> None:
            self[key] = reply

    log = Log()
    first = SampleContext(SampleKey("q"), call_log=log).read_start_time()  # type: ignore[arg-type]
    continued = SampleContext(SampleKey("q"), call_log=log)  # type: ignore[arg-type]
    assert continued.read_start_time() == continued.read_start_time() == first and len(log) == 1
    alone = SampleContext(SampleKey("q"))
    assert alone.read_start_time() is alone.read_start_time() != first
    assert abs((first - datetime.now(UTC)).total_seconds()) < 60


def test_the_work_of_a_pool_may_have_an_argument_of_any_name() -> None:
    with use_context(question()), ThreadPoolExecutor(1) as threads:
        assert threads.submit(dict, pool=1, call=2).result() == {"pool": 1, "call": 2}
