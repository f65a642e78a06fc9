import asyncio
import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mas.llm.adaptive_pace import Traffic
from mas.llm.rate_limiter import BackoffTooLongError, RateLimiter, RequestPermit, _create_bucket
from tests.mas.llm.virtual_time import run_in_virtual_time

seconds = st.floats(0.0, 3.0)
outcomes = st.sampled_from(["succeeded", "refused", "refused for a second", "server failed", "nothing"])


def tell(permit: RequestPermit, outcome: str) -> None:
    if outcome == "succeeded":
        permit.record_success()
    elif outcome.startswith("refused"):
        permit.record_rate_limit(1.0 if outcome.endswith("second") else None)
    elif outcome == "server failed":
        permit.record_server_error()


async def close(limiter: RateLimiter, retry_after: float | None) -> None:
    """Refuse requests until nothing is sent any more, the last of them for so many seconds."""
    while not limiter.policy.hold_until:
        with await limiter.acquire(1) as permit:
            permit.record_rate_limit(retry_after)
    with await limiter.acquire(1) as probe:
        probe.record_rate_limit(retry_after)


def reasons(limiter: RateLimiter) -> list[str]:
    return [entry["reason"] for entry in limiter.history]


@given(st.integers(1, 50), st.lists(st.tuples(seconds, seconds, outcomes), max_size=60))
@settings(max_examples=60, deadline=None)
def test_never_more_inside_than_the_limit_and_everybody_passes(ceiling, requests):
    limiter, passed = RateLimiter(ceiling), []

    async def request(arrives: float, takes: float, outcome: str) -> None:
        await asyncio.sleep(arrives)
        with await limiter.acquire(1) as permit:
            assert 1 <= limiter.in_flight <= ceiling
            await asyncio.sleep(takes)
            tell(permit, outcome)
        passed.append(outcome)

    async def all_of_them() -> None:
        await asyncio.gather(*[request(*given) for given in requests])

    run_in_virtual_time(all_of_them())
    assert sorted(passed) == sorted(outcome for _, _, outcome in requests)
    assert limiter.in_flight == 0


@given(
    st.lists(st.tuples(st.integers(0, 5_000), outcomes), min_size=1, max_size=30),
    st.sampled_from([(None, None), (600, None), (None, 60_000), (600, 60_000)]),
)
@settings(max_examples=60, deadline=None)
def test_first_come_first_served_however_large(requests, rates):
    limiter, entered = RateLimiter(3, *rates), []

    async def request(number: int, tokens: int, outcome: str) -> None:
        with await limiter.acquire(tokens) as permit:
            entered.append(number)
            await asyncio.sleep(0.2)
            tell(permit, outcome)

    async def all_of_them() -> None:
        await asyncio.gather(*[request(number, *given) for number, given in enumerate(requests)])

    run_in_virtual_time(all_of_them())
    assert entered == list(range(len(requests)))


@given(st.lists(st.tuples(seconds, seconds, st.none() | seconds, outcomes), max_size=60), st.sampled_from([None, 600]))
@settings(max_examples=60, deadline=None)
def test_a_storm_of_cancellations_swallows_no_place(requests, per_minute):
    limiter = RateLimiter(4, per_minute)

    async def request(arrives: float, takes: float, cancelled_after: float | None, outcome: str) -> None:
        await asyncio.sleep(arrives)
        try:
            async with asyncio.timeout(cancelled_after):
                with await limiter.acquire(1) as permit:
                    await asyncio.sleep(takes)
                    tell(permit, outcome)
        except TimeoutError:
            pass

    async def all_of_them() -> None:
        await asyncio.gather(*[request(*given) for given in requests])
        assert limiter.in_flight == 0
        async with asyncio.timeout(200):
            with await limiter.acquire(1):
                assert limiter.in_flight == 1

    run_in_virtual_time(all_of_them())


def test_a_pause_beyond_the_deadline_is_not_waited_for():
    limiter = RateLimiter(4)

    async def all_of_them() -> None:
        await close(limiter, 30.0)
        began = limiter.now()
        with pytest.raises(BackoffTooLongError, match="30 s"), await limiter.acquire(1, lambda: 20):
            pass
        assert limiter.now() == began
        with await limiter.acquire(1, lambda: 40):
            assert limiter.now() == pytest.approx(began + 30, abs=0.01)

    run_in_virtual_time(all_of_them())


def test_a_pause_is_told_on_coming_however_long_the_queue_is():
    limiter = RateLimiter(1)

    async def patient() -> None:
        with await limiter.acquire(1):
            pass

    async def all_of_them() -> None:
        await close(limiter, 30.0)
        queue = [asyncio.create_task(patient()) for _ in range(3)]
        await asyncio.sleep(1)
        began = limiter.now()
        with pytest.raises(BackoffTooLongError, match="29 s"), await limiter.acquire(1, lambda: 20):
            pass
        assert limiter.now() == began
        await asyncio.gather(*queue)

    run_in_virtual_time(all_of_them())


def test_a_pause_is_told_to_the_whole_queue_once_its_first_has_been_told():
    async def all_of_them() -> list[float]:
        limiter, told = RateLimiter(64, requests_per_minute=60), []

        async def impatient() -> None:
            try:
                with await limiter.acquire(1, lambda: 1.0):
                    pass
            except BackoffTooLongError:
                told.append(limiter.now() - 1000.0)

        with await limiter.acquire(1):
            queue = [asyncio.create_task(impatient()) for _ in range(5)]
            await asyncio.sleep(0.5)
            limiter.policy.hold_until = limiter.now() + 10.0
        await asyncio.gather(*queue)
        return told

    assert run_in_virtual_time(all_of_them()) == pytest.approx([1.0] * 5, abs=0.01)


def test_who_has_queued_for_long_still_has_the_patience_for_a_short_pause():
    async def all_of_them() -> float:
        limiter = RateLimiter(64, requests_per_minute=1)

        async def request(place: int) -> None:
            with await limiter.acquire(1, lambda: 5.0) as permit:
                if place < 4:
                    permit.record_rate_limit(3.0)

        await asyncio.gather(*[request(place) for place in range(5)])
        return limiter.now() - 1000.0

    assert run_in_virtual_time(all_of_them()) == pytest.approx(240, abs=1)


def test_a_pause_that_is_not_waited_for_costs_nothing_of_the_rate():
    async def all_of_them() -> float:
        limiter = RateLimiter(64, requests_per_minute=60)
        await close(limiter, 1.5)
        for _ in range(10):
            with pytest.raises(BackoffTooLongError), await limiter.acquire(1, lambda: 1.0):
                pass
        began = limiter.now()
        with await limiter.acquire(1):
            return limiter.now() - began

    assert run_in_virtual_time(all_of_them()) == pytest.approx(1.5, abs=1e-3)


def test_without_refusals_the_ceiling_is_reached_before_the_first_reply():
    limiter = RateLimiter(64)

    async def request() -> float:
        with await limiter.acquire(1) as permit:
            entered = limiter.now()
            await asyncio.sleep(1)
            permit.record_success()
        return entered

    async def all_of_them() -> list[float]:
        return await asyncio.gather(*[request() for _ in range(64)])

    entered = run_in_virtual_time(all_of_them())
    assert max(entered) - min(entered) < 0.1
    assert reasons(limiter) == ["start"]


async def _times_sent(limiter: RateLimiter, requests: int, tokens: int) -> list[float]:
    async def request() -> float:
        with await limiter.acquire(tokens) as permit:
            sent = limiter.now()
            await asyncio.sleep(0.2)
            permit.record_success()
        return sent

    return await asyncio.gather(*[request() for _ in range(requests)])


@pytest.mark.parametrize(("per_minute", "requests"), [(3000, 200), (600, 40), (30, 10)])
def test_a_known_rate_is_kept_without_bursts_and_used_to_the_full(per_minute, requests):
    sent = run_in_virtual_time(_times_sent(RateLimiter(64, per_minute), requests, 1))
    per_second, burst = per_minute / 60, max(1, per_minute / 600)
    for first in range(requests):
        for last in range(first, requests):
            assert last - first + 1 <= burst + (sent[last] - sent[first]) * per_second + 1e-3
    assert sent[-1] - sent[0] <= (requests - burst) / per_second + 1e-3


def test_a_known_token_rate_counts_large_requests_in_full_and_lets_the_largest_pass():
    sent = run_in_virtual_time(_times_sent(RateLimiter(64, tokens_per_minute=60_000), 5, 3_000))
    gaps = [later - earlier for earlier, later in itertools.pairwise(sent)]
    assert gaps == pytest.approx([3.0] * 4, abs=0.01)
    assert len(run_in_virtual_time(_times_sent(RateLimiter(64, tokens_per_minute=60_000), 2, 10**9))) == 2


def test_a_server_that_refuses_a_declared_rate_is_obeyed():
    async def two() -> float:
        limiter = RateLimiter(64, requests_per_minute=6000)
        await close(limiter, 5.0)
        closed = limiter.now()
        with await limiter.acquire(1):
            return limiter.now() - closed

    assert run_in_virtual_time(two()) == pytest.approx(5.0, abs=1e-3)


class FixedRate:
    """A bucket of 50, 50 requests a second, 200 ms; refusals come at once."""

    def __init__(self, retry_after: float | None) -> None:
        self.retry_after, self.level, self.at = retry_after, 50.0, None
        self.good = self.rejected = 0

    async def ask(self, now: float) -> bool:
        self.level, self.at = min(50.0, self.level + (now - (self.at or now)) * 50), now
        if self.level < 1:
            self.rejected += 1
            return False
        self.level -= 1
        self.good += 1
        await asyncio.sleep(0.2)
        return True


async def _send_through(limiter: RateLimiter, server: FixedRate, requests: int, jitter: random.Random) -> float:
    async def worker(left: Iterator[int]) -> None:
        for _ in left:
            while not await ask():
                pass

    async def ask() -> bool:
        with await limiter.acquire(1) as permit:
            if good := await server.ask(limiter.now()):
                permit.record_success()
            else:
                permit.record_rate_limit(server.retry_after)
        if not good:
            await asyncio.sleep(server.retry_after or jitter.uniform(0, 1))
        return good

    left = iter(range(requests))
    await asyncio.gather(*[worker(left) for _ in range(64)])
    return limiter.now() - 1000.0  # virtual time starts there


@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_a_bucket_that_is_empty_at_first_says_nothing_of_the_rate(retry_after):
    limiter, server = RateLimiter(64), FixedRate(retry_after)
    server.level = 0.0
    duration = run_in_virtual_time(_send_through(limiter, server, 1000, random.Random(7)))
    assert server.good == 1000
    assert server.rejected < 80
    assert duration < 22  # 20 s at the server's rate


class Closed(FixedRate):
    """For five seconds it refuses everything, and says so."""

    async def ask(self, now: float) -> bool:
        if now < 1005.0:
            self.level, self.at, self.retry_after = 0.0, 1005.0, 1005.0 - now
            self.rejected += 1
            return False
        self.retry_after = 1.0
        return await super().ask(now)


def test_a_server_that_was_closed_at_first_is_used_to_the_full_once_it_opens():
    limiter, server = RateLimiter(64), Closed(None)
    duration = run_in_virtual_time(_send_through(limiter, server, 1000, random.Random(7)))
    assert server.rejected < 40
    assert duration < 5 + 22


def test_one_refusal_before_anything_has_got_through_delays_one_request():
    async def one_after_the_other() -> float:
        limiter = RateLimiter(64)
        with await limiter.acquire(1) as permit:
            permit.record_rate_limit(None)
        for _ in range(20):
            with await limiter.acquire(1) as permit:
                permit.record_success()
        return limiter.now() - 1000.0

    assert run_in_virtual_time(one_after_the_other()) < 0.3


@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_an_unknown_rate_is_found_and_little_is_wasted(retry_after):
    limiter, server = RateLimiter(64), FixedRate(retry_after)
    duration = run_in_virtual_time(_send_through(limiter, server, 1000, random.Random(7)))
    assert server.good == 1000
    assert server.rejected < 80
    assert server.good / duration > 0.93 * 50
    assert 1 <= reasons(limiter).count("rate limit") <= 12


def test_an_end_told_twice_is_a_defect_of_the_caller():
    async def twice() -> None:
        with await RateLimiter(2).acquire(1) as permit:
            permit.record_success()
            permit.record_rate_limit(None)

    with pytest.raises(RuntimeError, match="recorded twice"):
        run_in_virtual_time(twice())


def test_a_failure_inside_gives_the_place_back():
    limiter = RateLimiter(1)

    async def failing() -> None:
        with await limiter.acquire(1):
            raise KeyError

    with pytest.raises(KeyError):
        run_in_virtual_time(failing())
    assert limiter.in_flight == 0


def test_a_rate_limiter_serves_one_loop_after_the_other():
    limiter = RateLimiter(2, requests_per_minute=6000)
    assert len(run_in_virtual_time(_times_sent(limiter, 5, 1))) == 5
    assert len(run_in_virtual_time(_times_sent(limiter, 5, 1))) == 5


def test_a_rate_limiter_that_lets_nobody_pass_is_refused():
    with pytest.raises(ValueError, match="max_concurrency is 0"):
        RateLimiter(0)


def test_the_traffic_counts_each_outcome_and_who_waits() -> None:
    async def all_of_them() -> list[Traffic]:
        limiter = RateLimiter(1)
        seen = []
        first = await limiter.acquire(1)
        waiting = asyncio.create_task(limiter.acquire(1))
        await asyncio.sleep(0.01)
        seen.append(limiter.traffic)
        first.record_success()
        seen.append(limiter.traffic)
        second = await waiting
        seen.append(limiter.traffic)
        second.record_server_error()
        with await limiter.acquire(1):
            pass
        seen.append(limiter.traffic)
        with await limiter.acquire(1) as refused:
            refused.record_rate_limit(None)
        assert limiter.traffic == Traffic(1, 1, 1, 0, 0, limiter.policy.pace)
        return seen

    assert run_in_virtual_time(all_of_them()) == [
        Traffic(0, 0, 0, 1, 1, None),
        Traffic(1, 0, 0, 0, 1, None),
        Traffic(1, 0, 0, 1, 0, None),
        Traffic(1, 0, 1, 0, 0, None),
    ]


@pytest.mark.parametrize(
    ("pause", "patience", "passes"),
    [
        (10.0, 10.0, True),
        (10.0, 9.5, False),
        (0.0, -5.0, True),
        (-3.0, -5.0, True),
        (0.5, 0.0, False),
        (0.5, -5.0, False),
    ],
)
def test_a_pause_may_last_as_long_as_the_patience(pause: float, patience: float, passes: bool) -> None:
    async def ask() -> None:
        limiter = RateLimiter(1)
        (await limiter.acquire(1)).record_success()
        limiter.policy.hold_until = limiter.now() + pause
        if passes:
            await limiter.acquire(1, lambda: patience)
            assert (limiter.in_flight, limiter.traffic.waiting) == (1, 0)
        else:
            with pytest.raises(BackoffTooLongError) as raised:
                await limiter.acquire(1, lambda: patience)
            assert raised.value.seconds == pause
            assert (limiter.in_flight, limiter.traffic.waiting) == (0, 0)

    run_in_virtual_time(ask())


@pytest.mark.parametrize(
    ("per_minute", "capacity", "seconds"), [(60.0, 1.0, 1.0), (600.0, 1.0, 0.1), (6000.0, 10.0, 0.1), (30.0, 1.0, 2.0)]
)
def test_a_bucket_holds_a_tenth_of_a_second_but_one_at_least(
    per_minute: float, capacity: float, seconds: float
) -> None:
    bucket = _create_bucket(per_minute)
    assert bucket is not None
    assert (bucket.max_rate, bucket.time_period) == pytest.approx((capacity, seconds))
    assert _create_bucket(None) is None and _create_bucket(0.0) is None


def test_a_second_loop_must_wait_until_the_first_is_closed() -> None:
    limiter, loop = RateLimiter(1), asyncio.new_event_loop()
    try:
        loop.run_until_complete(limiter.acquire(1))
        with pytest.raises(RuntimeError, match="belongs to one event loop"):
            asyncio.run(limiter.acquire(1))
        assert limiter.in_flight == 1
    finally:
        loop.close()
    asyncio.run(limiter.acquire(1))
    assert (limiter.in_flight, limiter.traffic.waiting) == (1, 0), "what the closed loop had in flight is gone"
