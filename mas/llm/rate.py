"""A known rate, kept: so many requests and tokens a minute, first come, first served, without bursts.

`aiolimiter.AsyncLimiter` does the counting. Three things that it does not do are done here or by the caller. It
serves the smallest amount first, so that a large request starves: the caller lets one wait at a time.
`AsyncLimiter(n, 60)` lets a whole minute's requests go at once, which servers that count by the second refuse: here the
same rate holds over a tenth of a second. It refuses an amount above its capacity: here that is paid in parts, up to a
minute's worth.

    rate = Rate(requests_per_minute=3000, tokens_per_minute=None)
    await rate.take(tokens=900)
"""

from dataclasses import dataclass

from aiolimiter import AsyncLimiter

BURST_SECONDS = 0.1


def _limiter(per_minute: float) -> AsyncLimiter:
    capacity = max(1.0, per_minute * BURST_SECONDS / 60)
    return AsyncLimiter(capacity, capacity * 60 / per_minute)


@dataclass
class Rate:
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
