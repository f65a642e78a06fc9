"""Limits of one question, and its two clocks: working time, and waiting that is none."""

import asyncio
import time

import pytest

from mas.question import LimitReachedError, Question, QuestionLimits, Sample, at_work, current_question


def question(**limits: float) -> Question:
    return Question(Sample("q"), QuestionLimits(**limits))  # type: ignore[arg-type]


def test_a_call_too_many_is_refused_before_it_is_made() -> None:
    asked = question(lm_calls=2)
    asked.spend_lm_call()
    asked.spend_lm_call()
    with pytest.raises(LimitReachedError, match=r"its 2 calls .* \(limits\.lm_calls\)") as raised:
        asked.spend_lm_call()
    assert (raised.value.limit, asked.lm_calls) == ("lm_calls", 2)


@pytest.mark.parametrize(("limit", "allowed"), [("tokens", 100), ("cost_usd", 0.01)])
def test_what_is_used_up_stops_the_next_call(limit: str, allowed: float) -> None:
    asked = question(**{limit: allowed})
    asked.spend_lm_call()
    asked.charge(99, 0.0075)
    asked.spend_lm_call()
    asked.charge(1, 0.0025)
    with pytest.raises(LimitReachedError) as raised:
        asked.spend_lm_call()
    assert raised.value.limit == limit


def test_an_unknown_price_adds_tokens_and_no_money() -> None:
    told: list[float] = []
    asked = Question(Sample("q"), spent=told.append)
    asked.charge(10, None)
    asked.charge(10, 0.5)
    assert (asked.tokens, asked.cost_usd, told) == (20, 0.5, [0.5])


def test_tool_calls_have_a_limit_of_their_own() -> None:
    asked = question(tool_calls=1)
    asked.spend_tool_call()
    asked.spend_lm_call()
    with pytest.raises(LimitReachedError, match="tool calls"):
        asked.spend_tool_call()


def test_it_is_found_in_its_own_context_alone() -> None:
    assert current_question() is None
    with at_work(question()) as asked:
        assert current_question() is asked
    assert current_question() is None


def test_too_much_work_is_a_limit() -> None:
    async def work() -> None:
        async with question(working_seconds=0.05).within_working_time():
            await asyncio.sleep(60)

    with pytest.raises(LimitReachedError, match=r"limits\.working_seconds"):
        asyncio.run(work())


def test_waiting_is_no_work_and_is_counted_once_for_calls_that_wait_side_by_side() -> None:
    asked = question(working_seconds=0.25)

    async def wait() -> None:
        with asked.waiting():
            await asyncio.sleep(0.3)

    async def work() -> None:
        async with asked.within_working_time():
            await asyncio.gather(wait(), wait(), wait())
            await asyncio.sleep(0.02)

    asyncio.run(work())
    assert 0.3 <= asked.waited_seconds < 0.9


def test_what_is_left_of_its_wall_time_is_known() -> None:
    assert question().seconds_left == float("inf")
    assert 59 < Question(Sample("q"), over_at=time.monotonic() + 60).seconds_left <= 60
