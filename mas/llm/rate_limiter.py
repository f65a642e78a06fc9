"""The one way to an endpoint: every request of every agent waits here until it may be sent, first come, first served.

Always a limit of requests in flight. A known rate is kept by `rate.py`; without one the limit and the pace are learnt
from the server's answers (`adaptive.py`). A server that refuses although its declared rate was kept is obeyed likewise.

    gate = Gate(max_concurrency=64)
    async with gate.slot(tokens=900) as slot:
        reply = await client.post(...)
        if reply.status_code == 429:
            slot.rate_limited(retry_after_seconds=1.0)
        else:
            slot.succeeded()
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiolimiter import AsyncLimiter

from mas.llm.adaptive_limit import START, AdaptiveLimit, SentRequest

BURST_SECONDS = 0.1


def _limiter(per_minute: float) -> AsyncLimiter:
    capacity = max(1.0, per_minute * BURST_SECONDS / 60)
    return AsyncLimiter(capacity, capacity * 60 / per_minute)


@dataclass
class DeclaredRate:
    """Bound to the event loop that first takes from it. None: not limited. One `take` at a time."""

    requests_per_minute: float | None
    tokens_per_minute: float | None

    def __post_init__(self) -> None:
        self._requests = _limiter(self.requests_per_minute) if self.requests_per_minute else None
        self._tokens = _limiter(self.tokens_per_minute) if self.tokens_per_minute else None

    async def take(self, tokens: int) -> None:
        """Wait until a request of so many tokens may go."""
        if self._requests is not None:
            await self._requests.acquire()
        if self._tokens is not None and self.tokens_per_minute is not None:
            left = min(float(tokens), self.tokens_per_minute)
            while left > 0:
                part = min(left, self._tokens.max_rate)
                await self._tokens.acquire(part)
                left -= part


class BackoffTooLongError(Exception):
    """The server asked for a pause that lasts longer than the request can wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nothing may be sent for {seconds:.0f} s")
        self.seconds = seconds


class RequestPermit:
    """Leave to send one request; say how it ended, at most once (nothing said: it tells nothing about the server)."""

    def __init__(self, rate_limiter: "RateLimiter", sent: SentRequest) -> None:
        self._gate, self._sent = rate_limiter, sent
        self._in_flight = True  # as far as is known

    def record_success(self) -> None:
        self._end()
        self._gate.policy.record_success(self._sent, self._gate.now())

    def record_rate_limit(self, retry_after_seconds: float | None) -> None:
        """429 that is not about an exhausted quota. None: the server did not say when to come again."""
        self._end()
        self._gate.policy.record_rate_limit(self._sent, self._gate.in_flight, retry_after_seconds, self._gate.now())

    def record_server_error(self) -> None:
        """5xx: overloaded or broken, not a refusal for the rate."""
        self._end()
        self._gate.policy.record_server_error(self._gate.now())

    def leave(self) -> None:
        if self._in_flight:
            self._end()

    def _end(self) -> None:
        if not self._in_flight:
            raise RuntimeError("the end of a request was told twice; it can have one only")
        self._in_flight = False
        self._gate.give_back()


class RateLimiter:
    """One per endpoint; made anywhere, bound to the event loop of its first request, and anew once that is closed."""

    def __init__(
        self, max_concurrency: int, requests_per_minute: float | None = None, tokens_per_minute: float | None = None
    ) -> None:
        if max_concurrency < 1:
            raise ValueError(f"max_concurrency is {max_concurrency}; at least 1 request must be able to pass")
        self._rates = (requests_per_minute, tokens_per_minute)
        known = any(rate is not None for rate in self._rates)
        self.policy = AdaptiveLimit(max_concurrency, start=max_concurrency if known else START)
        self.in_flight = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def history(self) -> list[dict[str, Any]]:
        """How the limit went, the newest 1,000 changes: seconds since the first request, limit, reason."""
        return self.policy.history.entries()

    def now(self) -> float:
        """Monotonic seconds."""
        assert self._loop is not None
        return self._loop.time()

    @asynccontextmanager
    async def admit(
        self, tokens: int, patience_seconds: Callable[[], float] = lambda: math.inf
    ) -> AsyncIterator[RequestPermit]:
        """Wait for a turn, then count as in flight.

        Args:
            tokens: an estimate of prompt and reply together.
            patience_seconds: how long a pause the request can still wait for; asked when it matters.

        Raises:
            HeldError: the server has asked for a longer pause. At once on coming, on becoming the first in the queue
                and, for that one, when the pause begins.
            RuntimeError: used from a second event loop while the first is running.
        """
        self._bind()
        self._check_pause(patience_seconds())
        async with self._turn:  # first come, first served, and safe to cancel
            self._check_pause(patience_seconds())  # before anything of the rate is taken
            await self._rate.take(tokens)
            await self._room(patience_seconds)
            slot = RequestPermit(self, self.policy.send(self.now()))
            self.in_flight += 1
        try:
            yield slot
        finally:
            slot.leave()

    def _check_pause(self, patience_seconds: float) -> None:
        if (pause := self.policy.hold_until - self.now()) > max(0.0, patience_seconds):
            raise BackoffTooLongError(pause)

    async def _room(self, patience_seconds: Callable[[], float]) -> None:
        """Wait, as the first in the queue, until the pace and the limit let a request go."""
        policy, waited = self.policy, False
        while True:
            now = self.now()
            if (wait := policy.earliest() - now) > 0:
                self._check_pause(patience_seconds())
                await asyncio.sleep(wait)
            elif self.in_flight < policy.limit:
                break
            else:
                waited = True
                look_again = policy.wait_for_limit(now)
                if self.in_flight >= policy.limit:
                    await self._change(look_again)
        if not waited:
            policy.no_wait_for_limit()

    async def _change(self, at: float | None) -> None:
        """Wait until a request leaves, or until the time."""
        assert self._loop is not None
        self._left.clear()
        timer = None if at is None else self._loop.call_at(at, self._left.set)
        try:
            await self._left.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def give_back(self) -> None:
        self.in_flight -= 1
        self._left.set()

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError("a Gate belongs to one event loop, and that of its first request is still open")
        self._loop, self.in_flight = loop, 0
        self._turn, self._left = asyncio.Lock(), asyncio.Event()
        self._rate = DeclaredRate(*self._rates)
        self.policy.begin(loop.time())
