"""Rate limiter of an endpoint: the requests of all agents wait here, first come, first served.

The number in flight is always limited. A declared rate is kept; without one the pace is learnt from refusals (429) by
the rules of docs/explanation/rate-limits.md: cut, background, growth, closed. Requests count in the order of sending;
refusals of those sent before the last decision belong to that decision.
"""

import asyncio
import math
from dataclasses import dataclass, replace
from typing import Self

from aiolimiter import AsyncLimiter

from mas.llm import Traffic

BURST_SECONDS = 0.1  # of a declared rate
OPENING_PER_SECOND = 500.0  # pace before anything is known
MEASURED_REQUESTS, RESTART_PER_SECOND = 10, 20.0  # lowest pace if fewer had passed before a closure
CREDIT_SECONDS = 0.1  # lateness of a timer that the pace makes up for
HOLD_SECONDS, MAX_HOLD_SECONDS, HOLD_REQUESTS = 8.0, 30.0, 50  # after a cut, until so many are sent
DOUBLING_SECONDS = 2.5
MARGIN = 0.97  # of a measured rate
MAX_OVER_MEAN = 1.2  # pace after the server was closed, relative to what got through
MIN_PACE = 0.02  # requests per second
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.25, 1.0  # without Retry-After; longer the longer it is closed
MAX_RETRY_AFTER_SECONDS = 60.0
REFUSAL_SECONDS, MAX_REFUSAL_SECONDS = 0.15, 0.5  # that one takes; a probe is given twice that
MIN_BACKGROUND = 0.02  # share tolerated from the start
PRIOR_REQUESTS = 15.0  # weight of a background of 0: with less, a fallen limit seems chance
EXCESS = 0.2  # the cut's test is sharpest if a fifth of what the background lets pass is refused
CUT_EVIDENCE = 7.0  # natural logarithm of a likelihood ratio
MIN_SPAN_SECONDS = 0.1  # below which no rate is measured


@dataclass(frozen=True)
class RequestPermit:
    """Permission to send a request within the `with` block, and its place in the order of sending."""

    limiter: "RateLimiter"
    number: int  # in the order of sending
    at: float  # monotonic seconds
    refused: int  # of all requests until then
    is_held: bool = False  # sent at a pace that is held: counts for the background

    def record_success(self) -> None:
        self.limiter.traffic.answered += 1

    def record_rate_limit(self, retry_after_seconds: float | None) -> None:
        """Record a 429 that is not about an exhausted quota; None if the server named no pause."""
        self.limiter.record_rate_limit(self, retry_after_seconds)

    def record_server_error(self) -> None:
        """Record a 5xx: the server is overloaded or broken, but did not refuse because of the rate."""
        self.limiter.traffic.failed += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.limiter.traffic.in_flight -= 1
        self.limiter.ended.set()

    def count_accepted(self, later: "RequestPermit") -> int:
        return (later.number - self.number) - (later.refused - self.refused)

    def measure_rate(self, later: "RequestPermit") -> float:
        """Return the requests per second accepted from here to a later request."""
        return self.count_accepted(later) / max(MIN_SPAN_SECONDS, later.at - self.at)


class RateLimiter:
    """One per endpoint, used on one event loop."""

    def __init__(
        self,
        max_concurrency: int,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        n_sharing: int = 1,
    ) -> None:
        """`n_sharing`: limiters, each with this share of the server's limits."""
        self._buckets = [_create_bucket(rate) for rate in (requests_per_minute, tokens_per_minute)]
        self._turn, self.ended = asyncio.Lock(), asyncio.Event()
        self._max_tokens = n_sharing * (tokens_per_minute or 0.0)  # of a request: no server takes more
        self.counts_tokens = tokens_per_minute is not None
        self.max_concurrency = max_concurrency
        self.traffic = Traffic()
        self.pace = OPENING_PER_SECOND
        self.hold_until = 0.0  # end of the present pause
        self._next = self._grow_at = 0.0
        self._number = self._judged = self._decided_at = 0  # newest request: sent, refused, at a decision
        self._is_held = self._is_probed = self._is_blank = False  # blank: nothing had passed at a decision
        self._closed_since: float | None = None
        self._refusal_seconds = REFUSAL_SECONDS  # the longest
        self._held_refused = self._held_sent = 0.0
        self._excess = 0.0  # evidence against the background
        self._streak = self._began = self._mark(0.0)  # begin of the excess; of growth

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def acquire(self, tokens: int) -> RequestPermit:
        """Wait for a turn, for a request of about so many tokens: prompt and reply together."""
        self.traffic.waiting += 1
        try:
            async with self._turn:  # first come, first served, and safe to cancel
                await self._wait_for_declared_rate(tokens)
                while (wait := max(self.hold_until, self._next) - self.now()) > 0 or self._is_full:
                    self.ended.clear()
                    await (asyncio.sleep(wait) if wait > 0 else self.ended.wait())
                self.traffic.in_flight += 1
                return self._record_send(self.now())
        finally:
            self.traffic.waiting -= 1

    async def _wait_for_declared_rate(self, tokens: int) -> None:
        for bucket, amount in zip(self._buckets, (1.0, min(float(tokens), self._max_tokens)), strict=True):
            while bucket is not None and amount > 0:
                part = min(amount, bucket.max_rate)
                await bucket.acquire(part)
                amount -= part

    @property
    def _is_full(self) -> bool:
        return self.traffic.in_flight >= self.max_concurrency

    @property
    def background(self) -> float:
        """Share of requests that is refused whatever the pace."""
        return max(MIN_BACKGROUND, self._held_refused / (self._held_sent + PRIOR_REQUESTS))

    def _mark(self, now: float, is_held: bool = False) -> RequestPermit:
        return RequestPermit(self, self._number, now, self.traffic.refused, is_held)

    def _record_send(self, now: float) -> RequestPermit:
        """Number a request that is being sent, and space the next one."""
        if self._closed_since is not None and self._is_probed:  # the probe was not refused in time
            self._reopen(now)
        if self._number == 0:
            self._began = self._mark(now)
        self._number += 1
        if self._closed_since is not None:
            self._is_probed, self._next = True, now + 2 * self._refusal_seconds
            return self._mark(now)
        gap = 1 / self.pace
        is_waited_for = self._next > now - CREDIT_SECONDS
        self._next = max(self._next, now - CREDIT_SECONDS) + gap
        if is_waited_for and now >= self._grow_at:
            if self._began.at < self._grow_at:
                self._began = self._mark(now)
            self._is_held = False
            self.pace *= 2 ** min(1.0, gap / DOUBLING_SECONDS)
        self._held_sent += self._is_held
        return self._mark(now, self._is_held)

    def record_rate_limit(self, sent: RequestPermit, retry_after_seconds: float | None) -> None:
        now = self.now()
        accepted = max(0, sent.number - self._judged - 1)  # since the last refusal
        self._judged = max(self._judged, sent.number)
        self.traffic.refused += 1
        self._refusal_seconds = min(max(self._refusal_seconds, now - sent.at), MAX_REFUSAL_SECONDS)
        if sent.number <= self._decided_at:
            return
        if self._closed_since is not None:
            self._pause(retry_after_seconds, now)
            return
        self._held_refused += sent.is_held
        here = replace(sent, refused=self.traffic.refused)
        self._add_evidence(here, accepted)
        if self._excess < CUT_EVIDENCE:
            return
        was_blank, self._is_blank = self._is_blank, self._streak.count_accepted(here) <= 0
        if was_blank and self._is_blank:
            self._closed_since = now
            self._pause(None, now)  # the first probe waits for no Retry-After
        elif self._is_blank:
            self._cut(self._began.measure_rate(here), now)
            self._is_held = False  # what is refused next is no chance, if the server is closed
        else:
            self._cut(self._streak.measure_rate(here), now)

    def _add_evidence(self, here: RequestPermit, accepted: int) -> None:
        """Weigh a share `more` of refusals against the background: a CUSUM of log-likelihood ratios."""
        more = self.background + (1 - self.background) * EXCESS
        self._excess = max(0.0, self._excess + accepted * math.log(1 - EXCESS))
        if self._excess == 0.0:
            self._streak = here
        self._excess += math.log(more / self.background)

    def _pause(self, retry_after_seconds: float | None, now: float) -> None:
        """Send nothing for a while, and then one probe."""
        closed_seconds = now - (self._closed_since or now)
        pause = retry_after_seconds or min(max(MIN_PAUSE_SECONDS, closed_seconds), MAX_PAUSE_SECONDS)
        self.hold_until = max(self.hold_until, now + min(pause, MAX_RETRY_AFTER_SECONDS))
        self._is_probed, self._decided_at = False, self._number

    def _reopen(self, now: float) -> None:
        """Send again, at the rate that got through since the pace grew: over a whole window."""
        here = self._mark(now)
        rate = self._began.measure_rate(here)
        self.pace, self._grow_at = min((rate + self.pace) / 2, MAX_OVER_MEAN * rate), now + HOLD_SECONDS
        if self._began.count_accepted(here) < MEASURED_REQUESTS:
            self.pace, self._grow_at = max(self.pace, RESTART_PER_SECOND), now
        self._began, self._closed_since, self._is_blank, self._next = here, None, False, now
        self._excess, self._decided_at, self._is_held = 0.0, self._number, False

    def _cut(self, rate: float, now: float) -> None:
        """Lower the pace to a measured rate, at most by half, and hold it."""
        half = self.pace / 2
        self._is_held = rate >= half
        self.pace = max(MIN_PACE, MARGIN * min(max(rate, half), self.pace))
        hold = max(HOLD_SECONDS, min(HOLD_REQUESTS / self.pace, MAX_HOLD_SECONDS))
        self._next, self._grow_at = now + 1 / self.pace, max(self._grow_at, now + hold)
        self._held_refused, self._held_sent = self._held_refused / 2, self._held_sent / 2  # forget the old
        self._excess, self._decided_at = 0.0, self._number


def _create_bucket(per_minute: float | None) -> AsyncLimiter | None:
    if not per_minute:
        return None
    capacity = max(1.0, per_minute * BURST_SECONDS / 60)
    return AsyncLimiter(capacity, capacity * 60 / per_minute)
