"""Rate limiter of an endpoint: the requests of all agents wait here until they may be sent, first come, first served.

The number of requests in flight is always limited. A rate that the profile declares is kept. Without one the pace is
learnt from the server's refusals (`adaptive_pace.py`); the same if a server refuses although its declared rate is kept.

    with await RateLimiter(max_concurrency=64).acquire(tokens=900) as permit:
        await client.post(...)
        permit.record_success()
"""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol, Self

from aiolimiter import AsyncLimiter

from mas.llm.adaptive_pace import AdaptivePace, SentRequest, Traffic

BURST_SECONDS = 0.1


class BackoffTooLongError(Exception):
    """The server asked for a pause that lasts longer than the request can wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nothing may be sent for {seconds:.0f} s")
        self.seconds = seconds


class Permit(Protocol):
    """Permission to send one request within the `with` block. Its outcome, if it has any, is recorded there once."""

    def record_success(self) -> None: ...

    def record_rate_limit(self, retry_after_seconds: float | None) -> None:
        """Record a 429 that is not about an exhausted quota; None if the server named no pause."""

    def record_server_error(self) -> None:
        """Record a 5xx: the server is overloaded or broken, but did not refuse because of the rate."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Limiter(Protocol):
    """Rate limiter as the model client uses it; another process may have the one that decides."""

    async def acquire(self, tokens: int, get_patience: Callable[[], float] = ...) -> Permit:
        """Wait for a turn; see `RateLimiter.acquire`."""


class RequestPermit:
    """A Permit of a RateLimiter."""

    def __init__(self, limiter: "RateLimiter", sent: SentRequest) -> None:
        self._limiter, self._sent = limiter, sent

    def record_success(self) -> None:
        self._limiter.answered += 1

    def record_rate_limit(self, retry_after_seconds: float | None) -> None:
        self._limiter.policy.record_rate_limit(self._sent, retry_after_seconds, self._limiter.now())

    def record_server_error(self) -> None:
        self._limiter.failed += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._limiter.end_request()


class RateLimiter:
    """One per endpoint. Bound to the event loop of its first request, and to a new one once that loop is closed."""

    def __init__(
        self, max_concurrency: int, requests_per_minute: float | None = None, tokens_per_minute: float | None = None
    ) -> None:
        self._rates = (requests_per_minute, tokens_per_minute)
        self.max_concurrency = max_concurrency
        self.policy = AdaptivePace()
        self.in_flight = self.answered = self.failed = self._waiting = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def traffic(self) -> Traffic:
        """Counts of requests until now; may be read from another thread."""
        policy = self.policy
        pace = policy.pace if policy.refused else None
        return Traffic(self.answered, policy.refused, self.failed, self.in_flight, self._waiting, pace)

    def now(self) -> float:
        """Return monotonic seconds."""
        assert self._loop is not None
        return self._loop.time()

    async def acquire(self, tokens: int, get_patience: Callable[[], float] = lambda: math.inf) -> RequestPermit:
        """Wait for a turn; the request is in flight until the end of the permit's block.

        Args:
            tokens: an estimate of prompt and reply together.
            get_patience: returns the seconds of a pause that the request can still wait for.

        Raises:
            BackoffTooLongError: the server has asked for a longer pause, now or while the request waits.
            RuntimeError: used from a second event loop while the first is open.
        """
        self._bind()
        self._check_pause(get_patience())
        self._waiting += 1
        try:
            async with self._turn:  # first come, first served, and safe to cancel
                self._check_pause(get_patience())  # before the declared rate is used
                await self._wait_for_declared_rate(tokens)
                await self._wait_for_capacity(get_patience)
                self.in_flight += 1
                return RequestPermit(self, self.policy.record_send(self.now()))
        finally:
            self._waiting -= 1

    def _check_pause(self, patience_seconds: float) -> None:
        if (pause := self.policy.hold_until - self.now()) > max(0.0, patience_seconds):
            raise BackoffTooLongError(pause)

    async def _wait_for_declared_rate(self, tokens: int) -> None:
        for bucket, amount in zip(self._buckets, (1.0, min(float(tokens), self._rates[1] or 0.0)), strict=True):
            while bucket is not None and amount > 0:
                part = min(amount, bucket.max_rate)
                await bucket.acquire(part)
                amount -= part

    async def _wait_for_capacity(self, get_patience: Callable[[], float]) -> None:
        """Wait, at the head of the queue, until the pace and the limit of requests in flight let a request pass."""
        while True:
            if (wait := self.policy.next_send_at - self.now()) > 0:
                self._check_pause(get_patience())
                await asyncio.sleep(wait)
            elif self.in_flight < self.max_concurrency:
                return
            else:
                self._ended.clear()
                await self._ended.wait()

    def end_request(self) -> None:
        """Count a request as no longer in flight; called by its permit."""
        self.in_flight -= 1
        self._ended.set()

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError("a RateLimiter belongs to one event loop, and that of its first request is still open")
        self._loop, self.in_flight, self._waiting = loop, 0, 0
        self._turn, self._ended = asyncio.Lock(), asyncio.Event()
        self._buckets = [_create_bucket(rate) for rate in self._rates]


def _create_bucket(per_minute: float | None) -> AsyncLimiter | None:
    """Return a leaky bucket for a limit that the profile declares."""
    if not per_minute:
        return None
    capacity = max(1.0, per_minute * BURST_SECONDS / 60)
    return AsyncLimiter(capacity, capacity * 60 / per_minute)
