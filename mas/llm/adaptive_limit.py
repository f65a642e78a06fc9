"""How the limit of requests in flight went, for the report: when, how many, why.

history = History()
history.note(now=100.0, limit=32, reason="start")
history.entries()                              # [{"seconds": 0.0, "limit": 32, "reason": "start"}]
"""

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

LENGTH = 1_000  # the newest; "start" is kept beside them
GROWTH_SECONDS = 1.0  # growth is one entry a second, with the limit at its end


@dataclass
class Entry:
    seconds: float  # since the start
    limit: int
    reason: str


class LimitHistory:
    def __init__(self) -> None:
        self._began: float | None = None
        self._start: list[Entry] = []
        self._entries: deque[Entry] = deque(maxlen=LENGTH - 1)
        self._growth_noted = 0.0

    @property
    def begun(self) -> bool:
        return self._began is not None

    def note(self, now: float, limit: int, reason: str) -> None:
        """`now`: monotonic seconds; the first note is the start."""
        if self._began is None:
            self._began = now
            self._start.append(Entry(0.0, limit, reason))
            return
        entry = Entry(round(now - self._began, 3), limit, reason)
        last = self._entries[-1] if self._entries else None
        if reason == "growth" and last and last.reason == "growth" and now < self._growth_noted + GROWTH_SECONDS:
            self._entries[-1] = entry
            return
        self._growth_noted = now
        self._entries.append(entry)

    def entries(self) -> list[dict[str, Any]]:
        return [asdict(entry) for entry in [*self._start, *self._entries]]


START = 32  # requests at once before anything is known
OPENING_PER_SECOND = 500.0
STEPS_TO_CEILING = 32.0  # after a cut the limit grows by ceiling / 32 a second
MAX_COOLDOWN_SECONDS = 60.0
FIRST_COOLDOWN_SECONDS, LAST_COOLDOWN_SECONDS = 0.25, 16.0  # without Retry-After
SERVER_FAULT_PAUSE_SECONDS = 10.0
RECENT_SECONDS, RECENT_REQUESTS = 1.0, 16  # the longer of both: over it the rate just before a refusal is measured
CREDIT_SECONDS = 0.1  # how late a timer may be without the pace losing anything
MAX_PATIENCE_SECONDS = 64.0
MIN_PACE = 1 / LAST_COOLDOWN_SECONDS  # requests a second: the pace never waits longer than the pauses do
AGREEMENT = 0.8  # two paces that differ by less confirm each other
SEARCH_SECONDS = 2.0  # while the first pace is sought, it doubles in this time


@dataclass(frozen=True)
class SentRequest:
    """One request: its place in the order of sending, and when."""

    number: int
    at: float


@dataclass
class RateEpisode:
    """From one episode to the next."""

    began: float  # the last refusal; for the first cycle the first request
    resumed: float  # the end of the pause
    first: int  # number of its first request
    taken: int = 0  # sent and not refused
    recent: dict[int, float] = field(default_factory=dict)  # when the latest of them were sent
    ended: float | None = None
    fruitless: bool = False  # it was taken up again: after the pause nothing got through

    def most(self) -> float:
        """Requests a second that got through just before the refusal: the limit, and what the bucket held."""
        assert self.ended is not None
        since = min([self.ended - RECENT_SECONDS, *self.recent.values()])
        return len(self.recent) / max(self.ended - max(since, self.resumed), RECENT_SECONDS / 10)

    def least(self) -> float:
        """Requests a second that got through from refusal to refusal."""
        assert self.ended is not None
        return self.taken / max(self.ended - self.began, RECENT_SECONDS / 10)

    def spread(self, now: float) -> float:
        """Requests a second, what got through spread over the pause, too; never nothing."""
        return max(MIN_PACE, self.taken / max(now - self.began, RECENT_SECONDS / 10))


class AdaptiveLimit:
    """The policy alone: no clock, no queue; `now` is monotonic seconds and never goes back."""

    def __init__(self, ceiling: int, start: int = START) -> None:
        self.ceiling = ceiling
        self.limit = min(start, ceiling)
        self.pace: float | None = None  # requests a second; None: as fast as the limit lets
        self.history = LimitHistory()
        self.hold_until = self._next = 0.0
        self._number = self._cut_at = 0
        self._opening = True
        self._slow_start = False  # one more for every success, too, after nothing had got through
        self._steps = 0.0  # part of a step of growth that is due
        self._grown_until: float | None = None
        self._calm_until = 0.0  # nothing grows before
        self._patience = 0.0
        self._found = 0.0  # the pace as it was last measured, before growth
        self._cooldown = FIRST_COOLDOWN_SECONDS
        self._cycle = self._before = RateEpisode(0.0, 0.0, 0)

    def begin(self, now: float) -> None:
        """Start the clock, once."""
        if not self.history.begun:
            self._cycle = self._before = RateEpisode(now, now, 0)
            self.history.note(now, self.limit, "start")

    def earliest(self) -> float:
        """Nothing may be sent before this time."""
        return max(self.hold_until, self._next)

    def send(self, now: float) -> SentRequest:
        """A request goes out: number it, and space the next one."""
        if self._cycle.ended is not None:
            self._resume(now)
        self._number += 1
        sent = SentRequest(self._number, now)
        self._cycle.taken += 1
        recent = self._cycle.recent
        recent[sent.number] = now
        while len(recent) > RECENT_REQUESTS and now - recent[next(iter(recent))] > RECENT_SECONDS:
            del recent[next(iter(recent))]
        if self.pace is not None:
            self._space(now)
        return sent

    def _space(self, now: float) -> None:
        assert self.pace is not None
        busy = self._next > now - CREDIT_SECONDS  # the pace is what requests wait for
        gap = 1 / self.pace
        self._next = max(self._next, now - CREDIT_SECONDS) + gap
        if busy and now >= self._calm_until:
            self.pace *= 2 ** min(1.0, gap / max(SEARCH_SECONDS, 4 * self._patience))

    def wait_for_limit(self, now: float) -> float | None:
        """Somebody waits for the limit alone, so it grows with time; when to look again (None: it grows no more)."""
        if self.limit >= self.ceiling:
            return None
        per_second = OPENING_PER_SECOND if self._opening else self.ceiling / STEPS_TO_CEILING
        since = max(self._calm_until, now if self._grown_until is None else self._grown_until)
        self._steps += max(0.0, now - since) * per_second
        self._grown_until = max(now, since)
        self._grow(int(self._steps), now)
        self._steps %= 1
        return self._grown_until + (1 - self._steps) / per_second

    def no_wait_for_limit(self) -> None:
        self._grown_until = None

    def _grow(self, steps: int, now: float) -> None:
        grown = min(self.ceiling, self.limit + steps)
        if grown > self.limit:
            self.limit = grown
            self.history.note(now, self.limit, "growth")

    def record_success(self, sent: SentRequest, now: float) -> None:
        if sent.number > self._cut_at:
            self._cooldown = FIRST_COOLDOWN_SECONDS
        if (self._opening or self._slow_start) and self._grown_until is not None and now >= self._calm_until:
            self._grow(1, now)

    def record_server_error(self, now: float) -> None:
        if now >= self._calm_until:
            self.history.note(now, self.limit, "server fault: growth paused")
        self._calm_until = max(self._calm_until, now + SERVER_FAULT_PAUSE_SECONDS)

    def record_rate_limit(
        self, sent: SentRequest, in_flight: int, retry_after_seconds: float | None, now: float
    ) -> None:
        """A request was refused; `in_flight`: others that the server is still working on."""
        if sent.number >= self._cycle.first:
            self._cycle.taken -= 1
        self._cycle.recent.pop(sent.number, None)
        fresh = sent.number > self._cut_at
        if retry_after_seconds is not None and retry_after_seconds > 0:
            self.hold_until = max(self.hold_until, now + min(retry_after_seconds, MAX_COOLDOWN_SECONDS))
        elif fresh:
            self.hold_until = max(self.hold_until, now + self._cooldown)
            self._cooldown = min(2 * self._cooldown, LAST_COOLDOWN_SECONDS)
        if fresh:
            self._cut(in_flight, now)

    def _cut(self, in_flight: int, now: float) -> None:
        self._cut_at = self._number
        self._opening = self._slow_start = False
        self.limit = max(1, min(self.limit, max(in_flight, self.limit // 2)))
        if self._cycle.taken <= 0:  # nothing got through since the pause: the episode before goes on
            self._cycle = self._before
            self._cycle.fruitless = True
        self._cycle.ended = now
        self.history.note(now, self.limit, "rate limit")

    def _resume(self, now: float) -> None:
        cycle = self._before = self._cycle
        assert cycle.ended is not None
        least, most = cycle.least(), cycle.most()
        if self.pace is None and cycle.taken <= 0:
            self.limit, self._slow_start = 1, True
        elif self.pace is None:  # the bucket was full at the start: what it held was spread over the pause, too
            self.pace = self._found = cycle.spread(now)
        elif cycle.fruitless:
            self.pace = self._found = min(self.pace, cycle.spread(now))
        else:
            found = min(max(MIN_PACE, (least + most) / 2), self.pace)
            agree = AGREEMENT <= found / self._found <= 1 / AGREEMENT
            self._patience = min(max(1.0, 2 * self._patience), MAX_PATIENCE_SECONDS) if agree else 1.0
            self.pace = self._found = found
        self._calm_until = max(self._calm_until, now + self._patience)
        self._grown_until, self._steps = None, 0.0
        self._next = now
        self._cycle = RateEpisode(cycle.ended, now, self._number + 1)
        self.history.note(now, self.limit, "cooldown over")
