"""Adaptive limit and pace of requests, learnt from a server that does not declare its rate, and their history.

The limit bounds the requests in flight: it grows while requests wait for it, and is cut at a rate limit (429). The pace
spaces the requests: it is measured from how many requests got through between two rate limits, and grows slowly while
requests wait for it. After a rate limit nothing is sent for the pause that the server names, or for a growing one.

An *episode* lasts from one rate limit to the next. Refusals of requests that were sent before the last cut belong to
that cut and change nothing.

    limit = AdaptiveLimit(ceiling=64)
    limit.begin(now=100.0)
    sent = limit.record_send(now=100.0)
    limit.record_rate_limit(sent, in_flight=3, retry_after_seconds=None, now=100.2)
    limit.history.entries()         # [{"seconds": 0.0, "limit": 32, "reason": "start"}, {"seconds": 0.2, …}]
"""

from collections import deque
from dataclasses import dataclass, field
from typing import TypedDict

LENGTH = 1_000  # newest changes in the history; the start is always among them
GROWTH_SECONDS = 1.0  # growth within this time is one change
START = 32  # requests in flight before anything is known
OPENING_PER_SECOND = 500.0  # growth before the first rate limit
STEPS_TO_CEILING = 32.0  # growth after it: ceiling / 32 per second
MAX_COOLDOWN_SECONDS = 60.0
FIRST_COOLDOWN_SECONDS, LAST_COOLDOWN_SECONDS = 0.25, 16.0  # without Retry-After; doubles from the first to the last
SERVER_FAULT_PAUSE_SECONDS = 10.0  # without growth, after a server error
RECENT_SECONDS, RECENT_REQUESTS = 1.0, 16  # window of the peak rate before a rate limit: the longer of both
CREDIT_SECONDS = 0.1  # lateness of a timer that the pace makes up for
MAX_PATIENCE_SECONDS = 64.0
MIN_PACE = 1 / LAST_COOLDOWN_SECONDS  # requests per second
AGREEMENT = 0.8  # two paces whose ratio is above this confirm each other
SEARCH_SECONDS = 2.0  # in which the pace doubles while the first one is sought


class LimitChange(TypedDict):
    """One change of the number of requests that may be in flight at once."""

    seconds: float  # since the first request
    limit: int
    reason: str


class LimitHistory:
    """The start and the newest changes of a limit."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._start: list[LimitChange] = []
        self._changes: deque[LimitChange] = deque(maxlen=LENGTH - 1)
        self._growth_recorded = 0.0

    @property
    def has_begun(self) -> bool:
        return self._began is not None

    def record(self, now: float, limit: int, reason: str) -> None:
        """Record a change at `now` (monotonic seconds); the first one is the start."""
        if self._began is None:
            self._began = now
            self._start.append(LimitChange(seconds=0.0, limit=limit, reason=reason))
            return
        change = LimitChange(seconds=round(now - self._began, 3), limit=limit, reason=reason)
        last = self._changes[-1] if self._changes else None
        if reason == "growth" and last and last["reason"] == "growth" and now < self._growth_recorded + GROWTH_SECONDS:
            self._changes[-1] = change
            return
        self._growth_recorded = now
        self._changes.append(change)

    def entries(self) -> list[LimitChange]:
        return [*self._start, *self._changes]


@dataclass(frozen=True)
class SentRequest:
    """One request: its number in the order of sending, and the time (monotonic seconds)."""

    number: int
    at: float


@dataclass
class RateEpisode:
    """Requests between two rate limits, from which the server's rate is measured."""

    began: float  # at the last rate limit; the first episode: at the first request
    resumed: float  # end of the pause
    first: int  # number of its first request
    accepted: int = 0  # sent and not refused
    recent: dict[int, float] = field(default_factory=dict)  # number → time of sending, of the newest requests
    ended: float | None = None
    is_continued: bool = False  # no request of the next episode was accepted, so this one goes on

    def measure_peak_rate(self) -> float:
        """Return the requests per second accepted just before the rate limit: the rate plus the server's burst."""
        assert self.ended is not None
        since = min([self.ended - RECENT_SECONDS, *self.recent.values()])
        return len(self.recent) / max(self.ended - max(since, self.resumed), RECENT_SECONDS / 10)

    def measure_mean_rate(self) -> float:
        """Return the requests per second accepted from rate limit to rate limit."""
        assert self.ended is not None
        return self.accepted / max(self.ended - self.began, RECENT_SECONDS / 10)

    def measure_rate_with_pause(self, now: float) -> float:
        """Return the requests per second accepted from the beginning until now, at least MIN_PACE."""
        return max(MIN_PACE, self.accepted / max(now - self.began, RECENT_SECONDS / 10))


class AdaptiveLimit:
    """The policy alone, without clock and queue; `now` is monotonic seconds and never decreases."""

    def __init__(self, ceiling: int, start: int = START) -> None:
        self.ceiling = ceiling
        self.limit = min(start, ceiling)
        self.pace: float | None = None  # requests per second; None: as fast as the limit allows
        self.history = LimitHistory()
        self.hold_until = self._next = 0.0
        self._number = self._cut_at = 0
        self._is_opening = True
        self._is_slow_start = False  # grows with every success as well, after an episode without any
        self._steps = 0.0  # fraction of the next step of growth
        self._grown_until: float | None = None
        self._calm_until = 0.0  # no growth before
        self._patience = 0.0  # seconds without growth after a cut; longer while measured paces agree
        self._measured_pace = 0.0  # the last one, before growth
        self._cooldown = FIRST_COOLDOWN_SECONDS
        self._episode = self._previous = RateEpisode(0.0, 0.0, 0)

    def begin(self, now: float) -> None:
        """Start the clock, once."""
        if not self.history.has_begun:
            self._episode = self._previous = RateEpisode(now, now, 0)
            self.history.record(now, self.limit, "start")

    @property
    def next_send_at(self) -> float:
        """Time before which nothing may be sent."""
        return max(self.hold_until, self._next)

    def record_send(self, now: float) -> SentRequest:
        """Number a request that is being sent, and space the next one."""
        if self._episode.ended is not None:
            self._resume(now)
        self._number += 1
        sent = SentRequest(self._number, now)
        self._episode.accepted += 1
        recent = self._episode.recent
        recent[sent.number] = now
        while len(recent) > RECENT_REQUESTS and now - recent[next(iter(recent))] > RECENT_SECONDS:
            del recent[next(iter(recent))]
        if self.pace is not None:
            self._space(self.pace, now)
        return sent

    def _space(self, pace: float, now: float) -> None:
        is_waited_for = self._next > now - CREDIT_SECONDS
        gap = 1 / pace
        self._next = max(self._next, now - CREDIT_SECONDS) + gap
        if is_waited_for and now >= self._calm_until:
            self.pace = pace * 2 ** min(1.0, gap / max(SEARCH_SECONDS, 4 * self._patience))

    def grow_while_waiting(self, now: float) -> float | None:
        """Grow the limit, for which a request waits; return the time of the next step, None at the ceiling."""
        if self.limit >= self.ceiling:
            return None
        per_second = OPENING_PER_SECOND if self._is_opening else self.ceiling / STEPS_TO_CEILING
        since = max(self._calm_until, now if self._grown_until is None else self._grown_until)
        self._steps += max(0.0, now - since) * per_second
        self._grown_until = max(now, since)
        self._grow(int(self._steps), now)
        self._steps %= 1
        return self._grown_until + (1 - self._steps) / per_second

    def stop_growing(self) -> None:
        """Stop the growth with time: no request waits for the limit."""
        self._grown_until = None

    def _grow(self, steps: int, now: float) -> None:
        grown = min(self.ceiling, self.limit + steps)
        if grown > self.limit:
            self.limit = grown
            self.history.record(now, self.limit, "growth")

    def record_success(self, sent: SentRequest, now: float) -> None:
        if sent.number > self._cut_at:
            self._cooldown = FIRST_COOLDOWN_SECONDS
        if (self._is_opening or self._is_slow_start) and self._grown_until is not None and now >= self._calm_until:
            self._grow(1, now)

    def record_server_error(self, now: float) -> None:
        if now >= self._calm_until:
            self.history.record(now, self.limit, "server fault: growth paused")
        self._calm_until = max(self._calm_until, now + SERVER_FAULT_PAUSE_SECONDS)

    def record_rate_limit(
        self, sent: SentRequest, in_flight: int, retry_after_seconds: float | None, now: float
    ) -> None:
        """Record a refused request; `in_flight`: other requests that the server is still working on."""
        if sent.number >= self._episode.first:
            self._episode.accepted -= 1
        self._episode.recent.pop(sent.number, None)
        is_new = sent.number > self._cut_at
        if retry_after_seconds is not None and retry_after_seconds > 0:
            self.hold_until = max(self.hold_until, now + min(retry_after_seconds, MAX_COOLDOWN_SECONDS))
        elif is_new:
            self.hold_until = max(self.hold_until, now + self._cooldown)
            self._cooldown = min(2 * self._cooldown, LAST_COOLDOWN_SECONDS)
        if is_new:
            self._cut(in_flight, now)

    def _cut(self, in_flight: int, now: float) -> None:
        self._cut_at = self._number
        self._is_opening = self._is_slow_start = False
        self.limit = max(1, min(self.limit, max(in_flight, self.limit // 2)))
        if self._episode.accepted <= 0:  # nothing was accepted since the pause: the previous episode goes on
            self._episode = self._previous
            self._episode.is_continued = True
        self._episode.ended = now
        self.history.record(now, self.limit, "rate limit")

    def _resume(self, now: float) -> None:
        episode = self._previous = self._episode
        assert episode.ended is not None
        if self.pace is None and episode.accepted <= 0:
            self.limit, self._is_slow_start = 1, True
        elif self.pace is None:  # the first episode began with a full burst: spread it over the pause as well
            self.pace = self._measured_pace = episode.measure_rate_with_pause(now)
        elif episode.is_continued:
            self.pace = self._measured_pace = min(self.pace, episode.measure_rate_with_pause(now))
        else:
            between = (episode.measure_mean_rate() + episode.measure_peak_rate()) / 2
            measured = min(max(MIN_PACE, between), self.pace)
            agree = AGREEMENT <= measured / self._measured_pace <= 1 / AGREEMENT
            self._patience = min(max(1.0, 2 * self._patience), MAX_PATIENCE_SECONDS) if agree else 1.0
            self.pace = self._measured_pace = measured
        self._calm_until = max(self._calm_until, now + self._patience)
        self._grown_until, self._steps = None, 0.0
        self._next = now
        self._episode = RateEpisode(episode.ended, now, self._number + 1)
        self.history.record(now, self.limit, "cooldown over")
