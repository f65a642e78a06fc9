"""Limits of one question, and its two clocks: working time, and waiting that is none."""

import asyncio
import contextlib
import contextvars
import math
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest

from mas.runtime.loop_clock import now
from mas.runtime.sample_context import (
    UNLIMITED,
    LimitReachedError,
    Payment,
    SampleContext,
    SampleKey,
    SampleLimits,
    SampleUsage,
    current_context,
    read_context,
    use_context,
)
from tests.mas.llm.virtual_time import run_in_virtual_time


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


def test_it_is_found_in_its_own_context_alone() -> None:
    assert current_context() is None
    with use_context(question()) as asked:
        assert current_context() is asked
    assert current_context() is None


def test_too_much_work_is_a_limit() -> None:
    async def work() -> None:
        async with question(working_seconds=0.05).within_working_time():
            await asyncio.sleep(60)

    with pytest.raises(LimitReachedError, match=r"limits\.working_seconds"):
        asyncio.run(work())


def test_waiting_is_no_work_and_is_counted_once_for_calls_that_wait_side_by_side() -> None:
    asked = question(working_seconds=0.25)

    async def wait() -> None:
        with asked.pause_working_time():
            await asyncio.sleep(0.3)

    async def work() -> None:
        async with asked.within_working_time():
            await asyncio.gather(wait(), wait(), wait())
            await asyncio.sleep(0.02)

    asyncio.run(work())
    assert 0.3 <= asked.usage.waited_seconds < 0.9


def test_a_call_that_outlives_its_question_may_still_come_back_from_waiting() -> None:
    asked = question(working_seconds=60)

    async def outlive(ended: asyncio.Event) -> None:
        with asked.pause_working_time():
            await ended.wait()

    async def work() -> None:
        ended = asyncio.Event()
        async with asked.within_working_time():
            left_behind = asyncio.create_task(outlive(ended))
            await asyncio.sleep(0)
        ended.set()
        await left_behind

    asyncio.run(work())


def test_the_first_limit_that_was_reached_is_noted_and_a_copy_begins_anew() -> None:
    asked = question(lm_calls=1, tool_calls=0)
    asked.count_lm_call()
    for spend in (asked.count_lm_call, asked.count_tool_call):
        with pytest.raises(LimitReachedError):
            spend()
    assert asked.limit_reached == "lm_calls"
    asked.close()
    copy = replace(asked, limits=SampleLimits())
    copy.count_lm_call()
    assert copy.limit_reached is None


@pytest.mark.parametrize("end", ["closed", "out of time"])
def test_nothing_is_spent_for_a_question_that_is_over(end: str) -> None:
    asked = question()
    if end == "closed":
        asked.close()
    else:
        asked.deadline = now()
    for spend in (asked.count_lm_call, asked.count_tool_call):
        with pytest.raises(LimitReachedError) as raised:
            spend()
        assert raised.value.limit == "deadline_seconds"
    assert (asked.usage.lm_calls, asked.usage.tool_calls) == (0, 0)
    assert asked.limit_reached == (None if end == "closed" else "deadline_seconds")


@pytest.mark.parametrize("end", ["closed", "out of time"])
def test_what_is_done_for_a_thread_ends_with_the_question(end: str) -> None:
    async def work() -> None:
        asked = SampleContext(SampleKey("q"), deadline=now() + (60 if end == "closed" else 0.05))
        if end == "closed":
            asyncio.get_running_loop().call_later(0.05, asked.close)
        async with asked.within_deadline():
            await asyncio.sleep(60)

    began = time.monotonic()
    with pytest.raises(LimitReachedError, match="the question is over"):
        asyncio.run(work())
    assert time.monotonic() - began < 5


def test_a_timeout_of_its_own_is_not_the_end_of_the_question() -> None:
    async def work() -> None:
        async with question().within_deadline():
            raise TimeoutError("of a socket")

    with pytest.raises(TimeoutError, match="of a socket"):
        asyncio.run(work())


def test_what_is_left_of_its_wall_time_is_known() -> None:
    assert question().seconds_left == float("inf")
    assert 59 < SampleContext(SampleKey("q"), deadline=now() + 60).seconds_left <= 60


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


def test_without_settings_nothing_is_limited_and_nothing_was_used() -> None:
    assert asdict(SampleKey("q")) == {"sample_id": "q", "epoch": 1, "attempt": 1}
    assert set(asdict(SampleLimits()).values()) == {None}
    assert asdict(SampleUsage()) == {
        "lm_calls": 0, "tokens": 0, "tool_calls": 0, "cost_usd": 0.0, "waited_seconds": 0.0,
    }  # fmt: skip
    assert Payment() == Payment(0, 0, 0, None, False)
    asked = SampleContext(SampleKey("q"))
    assert (asked.budget, asked.call_log, asked.deadline) == (UNLIMITED, None, math.inf)
    for _ in range(20):
        asked.reserve_lm_call()
        asked.count_tool_call()
        asked.record_reply(10**9, 10.0**6)
    asked.budget.settle(Payment())
    assert (asked.usage.lm_calls, asked.usage.tool_calls, asked.limit_reached) == (20, 20, None)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"lm_calls": 0}, "the question has used its 0 calls to language models (limits.lm_calls)"),
        ({"tokens": 0}, "the question has used its 0 tokens (limits.tokens)"),
        ({"cost_usd": 0.0}, "the question has used its 0 US dollars (limits.cost_usd)"),
        ({"lm_calls": 0, "tokens": 0, "cost_usd": 0.0}, "the question has used its 0 calls to language models"),
    ],
)
def test_a_limit_of_nothing_lets_nothing_pass(limits: dict[str, float], message: str) -> None:
    asked = question(**limits)
    with pytest.raises(LimitReachedError) as caught:
        asked.reserve_lm_call()
    assert str(caught.value).startswith(message) and caught.value.limit == next(iter(limits)) == asked.limit_reached
    assert asked.usage.lm_calls == 0


class Budget:
    """Allows so many requests of all samples."""

    def __init__(self, left: int) -> None:
        self.left = left

    def reserve(self) -> None:
        if not self.left:
            raise LimitReachedError("max_cost_usd", "the run's money is spent")
        self.left -= 1

    def settle(self, payment: Payment | None) -> None:
        raise AssertionError("nobody has paid")


def test_the_budget_of_the_run_refuses_after_the_limits_of_the_question() -> None:
    budget = Budget(1)
    spent = SampleContext(SampleKey("q"), SampleLimits(lm_calls=0), budget)
    with pytest.raises(LimitReachedError, match="calls to language models"):
        spent.reserve_lm_call()
    asked = SampleContext(SampleKey("q"), budget=budget)
    asked.reserve_lm_call()
    assert budget.left == 0
    with pytest.raises(LimitReachedError) as caught:
        asked.reserve_lm_call()
    assert (caught.value.limit, str(caught.value)) == ("max_cost_usd", "the run's money is spent")
    assert asked.limit_reached == "max_cost_usd"


def test_a_budget_in_another_process_is_waited_for_and_its_refusal_is_noted() -> None:
    asked = list[str]()

    async def allow() -> None:
        asked.append("once")

    async def refuse() -> None:
        raise LimitReachedError("max_cost_usd", "the run's money is spent")

    context = SampleContext(SampleKey("q"))
    asyncio.run(context.await_budget())
    context.ask_budget = allow
    asyncio.run(context.await_budget())
    assert (asked, context.limit_reached) == (["once"], None)
    context.ask_budget = refuse
    with pytest.raises(LimitReachedError, match="the run's money is spent") as caught:
        asyncio.run(context.await_budget())
    assert (caught.value.limit, context.limit_reached) == ("max_cost_usd", "max_cost_usd")


def test_what_was_opened_last_is_released_first_and_once() -> None:
    released = list[int]()
    asked = question()
    asked.on_close += [lambda: released.append(1), lambda: released.append(2)]
    asked.close()
    asked.close()
    assert (released, asked.on_close) == ([2, 1], [])


def test_a_context_is_found_in_the_context_of_another() -> None:
    with use_context(question()) as asked:
        there = contextvars.copy_context()
    assert read_context(there) is asked
    assert read_context(contextvars.copy_context()) is None


def end_of_work(asked: SampleContext, *steps: float | str) -> float:
    """Do the steps within the working time, and return after how many seconds it was over; -1 if it was not.

    A number is work of so many seconds, "wait 5" is a wait, and "charge 5" a pause that the question's own code made.
    """

    async def go(steps: tuple[float | str, ...]) -> None:
        for step in steps:
            kind, _, seconds = str(step).rpartition(" ")
            if kind == "charge":
                asked.charge_pause(float(seconds))
            elif kind == "wait":
                with asked.pause_working_time():
                    await asyncio.sleep(float(seconds))
            elif kind == "wait and charge":
                with asked.pause_working_time():
                    asked.charge_pause(float(seconds))
                    await asyncio.sleep(50)
            else:
                await asyncio.sleep(float(seconds))

    async def main() -> float:
        began = now()
        try:
            async with asked.within_working_time():
                await go(steps)
        except LimitReachedError as error:
            assert str(error) == "the question has worked for its 10 seconds (limits.working_seconds)"
            assert error.limit == "working_seconds" == asked.limit_reached
            return now() - began
        return -1.0

    return run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("steps", "end"),
    [
        ((9.9,), -1),
        ((10.1,), 10),
        (("wait 100", 9.9), -1),
        (("wait 100", 10.1), 110),
        ((4.0, "wait 100", 5.9), -1),
        ((4.0, "wait 100", 6.1), 110),
        ((4.0, "wait 100", 3.0, "wait 7", 3.1), 117),
        ((4.0, "wait 100", 3.0, "wait 7", 2.9), -1),
        (("charge 3", 6.9), -1),
        (("charge 3", 7.1), 7),
        ((2.0, "charge 3", 5.1), 7),
        (("wait and charge 3", 6.9), -1),
        (("wait and charge 3", 7.1), 57),
    ],
)
def test_working_time_is_that_without_waiting_and_with_the_pauses_of_its_own_code(
    steps: tuple[float | str, ...], end: float
) -> None:
    assert end_of_work(question(working_seconds=10), *steps) == pytest.approx(end, abs=0.01)


def test_without_a_limit_work_takes_as_long_as_it_takes() -> None:
    assert end_of_work(question(), 1_000, "wait 1000", 1_000) == -1


def test_waits_side_by_side_are_one_wait() -> None:
    asked = question(working_seconds=10)

    async def wait(begin: float, seconds: float) -> None:
        await asyncio.sleep(begin)
        with asked.pause_working_time():
            await asyncio.sleep(seconds)

    async def main() -> None:
        async with asked.within_working_time():
            await asyncio.gather(wait(1, 30), wait(5, 40), wait(50, 10))

    run_in_virtual_time(main())
    assert asked.usage.waited_seconds == pytest.approx(44 + 10, abs=0.01)


def test_an_error_of_the_work_is_itself_unless_its_time_is_over() -> None:
    async def main(seconds: float) -> None:
        async with question(working_seconds=10).within_working_time():
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                raise ValueError("too late") from None
            raise ValueError("in time")

    with pytest.raises(ValueError, match="in time"):
        run_in_virtual_time(main(5))
    with pytest.raises(LimitReachedError):
        run_in_virtual_time(main(15))


def test_work_that_ignores_its_end_is_over_all_the_same() -> None:
    async def main() -> None:
        async with question(working_seconds=10).within_working_time():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    with pytest.raises(LimitReachedError, match="has worked for its 10 seconds"):
        run_in_virtual_time(main())


@pytest.mark.parametrize(("charged", "end"), [(0.0, 10), (4.0, 6), (9.0, 2)])
def test_a_pause_of_its_own_code_brings_the_deadline_nearer(charged: float, end: float) -> None:
    async def main() -> tuple[float, float]:
        began = now()
        asked = SampleContext(SampleKey("q"), deadline=began + 10)
        try:
            async with asked.within_deadline():
                await asyncio.sleep(2)
                asked.charge_pause(charged)
                left = asked.seconds_left
                await asyncio.sleep(60)
        except LimitReachedError as error:
            assert (error.limit, str(error)) == (
                "deadline_seconds", "the question is over: nothing more is done for it",
            )  # fmt: skip
        return left, now() - began

    left, ended = run_in_virtual_time(main())
    assert left == pytest.approx(8 - charged, abs=0.01)
    assert ended == pytest.approx(end, abs=0.01)


def test_a_timeout_of_another_block_ends_with_the_question_as_long_as_it_is_open() -> None:
    async def main(is_open: bool) -> float:
        asked, began = question(), now()
        asyncio.get_running_loop().call_later(5, asked.close)
        try:
            async with asyncio.timeout(100) as timeout:
                with asked.end_with(timeout):
                    await asyncio.sleep(60 if is_open else 1)
                await asyncio.sleep(60)
        except TimeoutError:
            return now() - began
        return -1.0

    assert run_in_virtual_time(main(is_open=True)) == pytest.approx(5, abs=0.01)
    assert run_in_virtual_time(main(is_open=False)) == -1


def test_a_context_that_is_over_begins_no_block() -> None:
    async def main() -> None:
        asked = question()
        asked.close()
        async with asked.within_deadline():
            raise AssertionError("it was entered")

    with pytest.raises(LimitReachedError):
        asyncio.run(main())


def test_a_copy_has_its_own_start_time_refusal_and_timeouts() -> None:
    async def main() -> None:
        asked = question()
        asked.server_refusal, began = "no money", asked.read_start_time()
        async with asyncio.timeout(60) as timeout:
            with asked.end_with(timeout):
                copy = replace(asked)
                copy.close()
                await asyncio.sleep(0)
        assert copy.server_refusal is None and copy.read_start_time() > began
        assert not timeout.expired(), "it ends with the other one"

    asyncio.run(main())
