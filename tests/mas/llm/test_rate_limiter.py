import asyncio
import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mas.llm.rate_limiter import RateLimiter, RequestPermit
from tests.bench import limiter_simulation
from tests.bench.limiter_simulation import Client, build_chance, simulate
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
    while not limiter.hold_until:
        with await limiter.acquire(1) as permit:
            permit.record_rate_limit(retry_after)
    with await limiter.acquire(1) as probe:
        probe.record_rate_limit(retry_after)


@given(st.integers(1, 50), st.lists(st.tuples(seconds, seconds, outcomes), max_size=60))
def test_never_more_inside_than_the_limit_and_everybody_passes(ceiling, requests):
    limiter, passed = RateLimiter(ceiling), []

    async def request(arrives: float, takes: float, outcome: str) -> None:
        await asyncio.sleep(arrives)
        with await limiter.acquire(1) as permit:
            assert 1 <= limiter.traffic.in_flight <= ceiling
            await asyncio.sleep(takes)
            tell(permit, outcome)
        passed.append(outcome)

    async def all_of_them() -> None:
        await asyncio.gather(*[request(*given) for given in requests])

    run_in_virtual_time(all_of_them())
    assert sorted(passed) == sorted(outcome for _, _, outcome in requests)
    assert limiter.traffic.in_flight == 0


@given(
    st.lists(st.tuples(st.integers(0, 5_000), outcomes), min_size=1, max_size=30),
    st.sampled_from([(None, None), (600, None), (None, 60_000), (600, 60_000)]),
)
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
        assert limiter.traffic.in_flight == 0
        async with asyncio.timeout(200):
            with await limiter.acquire(1):
                assert limiter.traffic.in_flight == 1

    run_in_virtual_time(all_of_them())


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
    assert limiter.traffic.refused == 0


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


def test_a_request_above_a_limiters_share_of_a_token_rate_is_counted_in_full():
    sent = run_in_virtual_time(_times_sent(RateLimiter(64, tokens_per_minute=7_500, n_sharing=8), 3, 15_000))
    assert [later - earlier for earlier, later in itertools.pairwise(sent)] == pytest.approx([120.0] * 2, abs=0.1)


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


@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_an_unknown_rate_is_found_and_little_is_wasted(retry_after):
    limiter, server = RateLimiter(64), FixedRate(retry_after)
    duration = run_in_virtual_time(_send_through(limiter, server, 1000, random.Random(7)))
    assert server.good == 1000
    assert server.rejected < 80
    assert server.good / duration > 0.93 * 50
    assert limiter.pace == pytest.approx(50, rel=0.5)


@pytest.mark.parametrize("says_when", [False, True])
def test_refusals_by_chance_do_not_close_the_server(says_when, monkeypatch):
    monkeypatch.setattr(limiter_simulation, "WORKERS", 24)
    rule = build_chance(0.33, seed=1), build_chance(0.33, seed=1)
    plain, ours = (
        simulate(client, each, calls=1000, says_when=says_when).seconds
        for client, each in zip(Client, rule, strict=True)
    )
    assert plain / ours > 0.4
