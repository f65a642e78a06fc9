"""How many requests an endpoint may hold, and how quickly they may follow one another, learnt from its answers.

Three rules; the first two are TCP's (slow start and one cut per loss episode, RFC 5681), as in Inspect AI's adaptive
connections, the third is TCP Westwood's and BBR's: pace at the rate that was measured, not at a guess.

1.  Opening. 32 requests at once; then one more for every success and for every 2 ms that somebody waits: a thousand in
    two seconds, yet slow enough to hear a refusal (429s are quick) before everything is sent.
2.  One cut per episode. The first 429 stops all sending for Retry-After (capped) or, without it, for a short time that
    doubles as long as nothing gets through, and lowers the limit to half, not below what the server is working on. A
    429 to a request from before the cut says nothing new. Then the limit grows by a fixed step a second.
3.  Pace. Concurrency alone cannot meet a rate: requests a second = requests in flight / latency, and the latency is the
    server's. So after an episode requests are spaced. Servers meter with a bucket; at a refusal it is empty. From one
    refusal to the next it went from empty to empty, so what got through over that time, pauses included, is at most the
    limit (less if the bucket overflowed in the pause); what got through in the last second before the refusal is at
    least the limit (it also used up the bucket). The pace is set midway. It is kept for `patience` seconds, then it
    grows until the next episode. When an episode confirms the pace, patience doubles: what is known is asked seldom.
    If nothing has ever got through, nothing was measured: no pace, one request at once, and slow start.

5xx: no cut, nothing grows for a while: such a server is ill, not asking for fewer requests.

    policy = Adaptive(ceiling=64)
    sent = policy.send(now=0.0)
    policy.rate_limited(sent, in_flight=10, retry_after_seconds=1.0, now=0.1)
    policy.earliest()                              # 1.1: nothing may be sent before
"""

from dataclasses import dataclass, field

from mas.llm.limit_history import History

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
class Sent:
    """One request: its place in the order of sending, and when."""

    number: int
    at: float


@dataclass
class Cycle:
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


class Adaptive:
    """The policy alone: no clock, no queue; `now` is monotonic seconds and never goes back."""

    def __init__(self, ceiling: int, start: int = START) -> None:
        self.ceiling = ceiling
        self.limit = min(start, ceiling)
        self.pace: float | None = None  # requests a second; None: as fast as the limit lets
        self.history = History()
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
        self._cycle = self._before = Cycle(0.0, 0.0, 0)

    def begin(self, now: float) -> None:
        """Start the clock, once."""
        if not self.history.begun:
            self._cycle = self._before = Cycle(now, now, 0)
            self.history.note(now, self.limit, "start")

    def earliest(self) -> float:
        """Nothing may be sent before this time."""
        return max(self.hold_until, self._next)

    def send(self, now: float) -> Sent:
        """A request goes out: number it, and space the next one."""
        if self._cycle.ended is not None:
            self._resume(now)
        self._number += 1
        sent = Sent(self._number, now)
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

    def succeeded(self, sent: Sent, now: float) -> None:
        if sent.number > self._cut_at:
            self._cooldown = FIRST_COOLDOWN_SECONDS
        if (self._opening or self._slow_start) and self._grown_until is not None and now >= self._calm_until:
            self._grow(1, now)

    def server_failed(self, now: float) -> None:
        if now >= self._calm_until:
            self.history.note(now, self.limit, "server fault: growth paused")
        self._calm_until = max(self._calm_until, now + SERVER_FAULT_PAUSE_SECONDS)

    def rate_limited(self, sent: Sent, in_flight: int, retry_after_seconds: float | None, now: float) -> None:
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
        self._cycle = Cycle(cycle.ended, now, self._number + 1)
        self.history.note(now, self.limit, "cooldown over")
