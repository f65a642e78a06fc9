"""Adaptive pace of requests, learnt from the refusals (429) of a server that does not declare its rate.

A refusal can mean two things. Either the pace is above the server's limit: then refusals come thick, and a slower pace
ends them. Or it is chance (a shared key, an overloaded provider): then the same share is refused at every pace, and
slowing down only costs time. Four rules follow:

1. *Cut*: refusals in excess of the background, found by a CUSUM test, set the pace to what got through since they
   began, at least half the pace before.
2. *Closed*: refusals in a row, more than the background explains, stop all sending. One probe is sent after each pause
   (0.25 to 1 s, or `Retry-After` from the second on) until one is not refused.
3. *Background*: the share refused at a pace that was just measured, by 10 accepted requests or by a second cut. A limit
   refuses nothing there, so it is chance, which slows nothing down. 2 % are taken for chance from the start. The share
   refused at any other pace that is kept for a while is an upper bound.
4. *Growth*: while requests wait for it, the pace doubles every 2 s after a calm time, which is 1 s at first and doubles
   up to 16 s as long as the measured rates agree. After a closure it is as long as the time since the one before, also
   up to 16 s, so that the pace does not grow into the end of each window of a server that counts in windows.

All rates count requests in the order of sending, so that replies that take minutes do not delay what refusals tell.
Refusals of requests that were sent before the last decision belong to that decision. The tests simulate the policy with
buckets, fixed windows, random refusals and neighbours (`tests/bench/limiter_simulation.py`).

    pace = AdaptivePace()
    pace.begin(now=100.0)
    sent = pace.record_send(now=100.0)
    pace.record_rate_limit(sent, retry_after_seconds=None, now=100.2)
    pace.next_send_at                # monotonic seconds before which nothing may be sent
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal, TypedDict

LENGTH = 1_000  # newest changes in the history; the start is always among them
OPENING_REQUESTS, OPENING_PER_SECOND = 32, 500.0  # sent at once before anything is known, and the pace of further ones
RESTART_PER_SECOND = 20.0  # first pace if the server was closed at first
CREDIT_SECONDS = 0.1  # lateness of a timer that the pace makes up for
DOUBLING_SECONDS = 2.0
FIRST_CALM_SECONDS, LAST_CALM_SECONDS = 1.0, 16.0
MIN_CALM_REQUESTS = 30  # that are sent before the pace grows, if that takes no longer than the last calm time
TRUSTED_REQUESTS, TRUSTED_CUTS = 10, 4  # accepted, or cuts in succession, that make a measured rate trusted
AGREEMENT = 0.8  # two rates whose ratio is above this agree
MARGIN = 0.97  # of a measured rate
MIN_PACE = 0.02  # requests per second
MAX_OVER_MEAN = 1.2  # pace after a closure, relative to what got through from closure to closure
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.25, 1.0  # without Retry-After; longer the longer it is closed
MAX_RETRY_AFTER_SECONDS = 60.0
MAX_PROBE_SECONDS = 1.0  # in which a probe must be refused, however long earlier refusals took
SERVER_FAULT_PAUSE_SECONDS = 10.0  # without growth, after a server error
MIN_BACKGROUND = 0.02  # tolerated from the start
PRIOR_REQUESTS, MEMORY_REQUESTS = 3.0, 500.0  # weight of an unknown background as 0; how long the background is kept
EXCESS = 0.2  # the cut's test is sharpest if a fifth of what the background lets pass is refused as well
CUT_EVIDENCE, CLOSED_EVIDENCE = 7.0, 10.0  # natural logarithms of likelihood ratios
MAX_COUNTED_RUN = 5  # of refusals in a row the background counts so many
MIN_SPAN_SECONDS = 0.02  # below which no rate is measured


Phase = Literal["opening", "trial", "steady", "growing"]  # before any refusal, after a cut, after a trusted cut


class PaceChange(TypedDict):
    """One change of the pace."""

    seconds: float  # since the first request
    pace: float  # requests per second
    reason: str


@dataclass(frozen=True)
class Traffic:
    """Requests of an endpoint until now, and the pace."""

    answered: int
    refused: int  # because of the rate (429)
    failed: int  # for another reason
    in_flight: int
    waiting: int  # for their turn
    pace: float | None  # requests per second; None: nothing was refused yet


@dataclass(frozen=True)
class SentRequest:
    """One request: its number in the order of sending, and the time (monotonic seconds)."""

    number: int
    at: float
    is_steady: bool  # sent at a pace that was just measured: counts for the background
    calm_number: int  # of the time without growth in which it was sent; 0: in none


@dataclass(frozen=True)
class _Mark:
    """A place in the order of sending, from which rates are measured."""

    number: int
    at: float
    refused: int  # of all requests until then

    def count_accepted(self, later: "_Mark") -> int:
        return (later.number - self.number) - (later.refused - self.refused)

    def measure_rate(self, later: "_Mark") -> float:
        """Return the requests per second accepted from here to a later mark."""
        return self.count_accepted(later) / max(MIN_SPAN_SECONDS, later.at - self.at)


class AdaptivePace:
    """The policy alone, without clock and queue; `now` is monotonic seconds and never decreases."""

    def __init__(self) -> None:
        self.pace = OPENING_PER_SECOND
        self.hold_until = 0.0  # end of the present pause
        self.refused = 0
        self._changes: deque[PaceChange] = deque(maxlen=LENGTH - 1)
        self._began: float | None = None
        self._phase: Phase = "opening"
        self._cuts = 0  # since the pace grew
        self._next = 0.0
        self._number = self._judged = self._decided_at = 0  # newest request: sent, refused, sent before a decision
        self._recent: deque[float] = deque(maxlen=16)  # times of sending
        self._steady_refused = self._steady_sent = 0.0
        self._run = 0  # refusals in a row
        self._excess = 0.0  # evidence against the background
        self._streak = self._closure = _Mark(0, 0.0, 0)  # begin of the present excess, of the last closure
        self._calm_number, self._calm_sent, self._calm_refused = 1, 0, 0
        self._closed_since: float | None = None
        self._cycle_seconds = 0.0  # between the last two closures
        self._is_probed = False
        self._refusal_seconds = 0.05  # that a refusal takes at most
        self._calm_seconds, self._calm_until = FIRST_CALM_SECONDS, 0.0
        self._measured = 0.0

    @property
    def history(self) -> list[PaceChange]:
        """The start and the newest changes."""
        start = PaceChange(seconds=0.0, pace=OPENING_PER_SECOND, reason="start")
        return [] if self._began is None else [start, *self._changes]

    @property
    def background(self) -> float:
        """Share of requests that is refused whatever the pace."""
        return max(MIN_BACKGROUND, self._steady_refused / (self._steady_sent + PRIOR_REQUESTS))

    @property
    def next_send_at(self) -> float:
        """Time before which nothing may be sent."""
        return max(self.hold_until, self._next)

    def begin(self, now: float) -> None:
        """Start the clock, once."""
        if self._began is None:
            self._began = now
            self._closure = _Mark(0, now, 0)

    def record_send(self, now: float) -> SentRequest:
        """Number a request that is being sent, and space the next one."""
        is_probe = self._closed_since is not None and not self._is_probed
        if self._closed_since is not None and self._is_probed:  # the probe was not refused in time
            self._reopen(now)
        self._is_probed = is_probe
        is_steady = self._phase == "steady" and not is_probe
        self._number += 1
        self._recent.append(now)
        self._space(now)
        if is_probe:
            self._next = max(self._next, now + min(max(0.1, 2 * self._refusal_seconds), MAX_PROBE_SECONDS))
        if is_steady:
            self._count_steady()
        is_calm = is_steady or (self._phase == "trial" and not is_probe)
        self._calm_sent += is_calm
        return SentRequest(self._number, now, is_steady, self._calm_number if is_calm else 0)

    def _space(self, now: float) -> None:
        credit = OPENING_REQUESTS / OPENING_PER_SECOND if self._phase == "opening" else CREDIT_SECONDS
        is_waited_for = self._next > now - CREDIT_SECONDS
        gap = 1 / self.pace
        self._next = max(self._next, now - credit) + gap
        if is_waited_for and now >= self._calm_until:
            if self._phase != "opening":
                self._phase, self._cuts = "growing", 0
            self.pace *= 2 ** min(1.0, gap / DOUBLING_SECONDS)

    def _count_steady(self) -> None:
        self._steady_sent += 1
        if self._steady_sent > MEMORY_REQUESTS:
            self._steady_refused *= MEMORY_REQUESTS / self._steady_sent
            self._steady_sent = MEMORY_REQUESTS

    def record_server_error(self, now: float) -> None:
        """Record a failure other than a refusal: the pace does not grow for a while."""
        if now >= self._calm_until:
            self._note("server fault: growth paused", now)
        self._calm_until = max(self._calm_until, now + SERVER_FAULT_PAUSE_SECONDS)

    def record_rate_limit(self, sent: SentRequest, retry_after_seconds: float | None, now: float) -> None:
        """Record a refused request (429)."""
        accepted = max(0, sent.number - self._judged - 1)  # since the last refusal
        self._judged = max(self._judged, sent.number)
        self.refused += 1
        here = _Mark(sent.number, sent.at, self.refused)
        self._refusal_seconds = max(0.98 * self._refusal_seconds, now - sent.at)
        self._run = 1 if accepted else self._run + 1
        self._calm_refused += sent.calm_number == self._calm_number
        if sent.is_steady and self._run <= MAX_COUNTED_RUN:
            self._steady_refused += 1
        elif sent.is_steady:
            self._steady_sent -= 1
        if sent.number <= self._decided_at:
            return
        if self._closed_since is not None:
            self._pause(retry_after_seconds, now)
            return
        self._add_evidence(here, accepted)
        through = self._streak.count_accepted(here)
        in_a_row = 1 + here.refused - self._streak.refused
        is_closed = through == 0 and in_a_row * -math.log(self.background) >= CLOSED_EVIDENCE
        is_excess = self._excess >= CUT_EVIDENCE
        if is_closed or (is_excess and self._phase == "opening"):
            self._close(here, now)
        elif is_excess:
            self._cut(self._streak.measure_rate(here), through, now)

    def _add_evidence(self, here: _Mark, accepted: int) -> None:
        """Weigh "a share `more` is refused" against "the background is": a CUSUM of log-likelihood ratios."""
        more = self.background + (1 - self.background) * EXCESS
        self._excess = max(0.0, self._excess + accepted * math.log(1 - EXCESS))
        if self._excess == 0.0:
            self._streak = here
        self._excess += math.log(more / self.background)

    def _cut(self, rate: float, accepted: int, now: float) -> None:
        """Lower the pace to a rate that was measured by so many accepted requests, at most by half, and keep it."""
        does_agree = self._measured > 0 and AGREEMENT <= rate / self._measured <= 1 / AGREEMENT
        self._calm_seconds = min(2 * self._calm_seconds, LAST_CALM_SECONDS) if does_agree else FIRST_CALM_SECONDS
        self._measured = rate
        self._bound_background()
        half = self._measure_peak() / 2
        self._cuts += 1
        is_trusted = rate >= half and (accepted >= TRUSTED_REQUESTS or self._cuts > 1)
        self._phase = "steady" if is_trusted or self._cuts >= TRUSTED_CUTS else "trial"
        self.pace = max(MIN_PACE, MARGIN * min(max(rate, half), self.pace))
        self._next = now + 1 / self.pace
        self._keep_pace(now)
        self._decide(now)

    def _bound_background(self) -> None:
        """Lower the background to what was refused since the last cut, before the pace grew, and a margin of error."""
        most = (self._calm_refused + 2 * math.sqrt(self._calm_refused + 1)) / max(1, self._calm_sent)
        if self._calm_sent >= MIN_CALM_REQUESTS and most < self.background:
            self._steady_refused = most * (self._steady_sent + PRIOR_REQUESTS)
        self._calm_number, self._calm_sent, self._calm_refused = self._calm_number + 1, 0, 0

    def _keep_pace(self, now: float) -> None:
        """Begin a calm time."""
        seconds = max(self._calm_seconds, min(MIN_CALM_REQUESTS / self.pace, LAST_CALM_SECONDS))
        self._calm_until = max(self._calm_until, now + seconds)

    def _measure_peak(self) -> float:
        """Return the pace, or the rate of the newest requests if fewer were sent."""
        span = max(MIN_SPAN_SECONDS, self._recent[-1] - self._recent[0])
        return min(self.pace, (len(self._recent) - 1) / span)

    def _close(self, here: _Mark, now: float) -> None:
        """Stop sending. The limit is between what got through since the last closure and the pace before this one."""
        mean = self._closure.measure_rate(here)
        if self._phase != "opening" and mean > 0:
            self._cut(min((mean + self._measure_peak()) / 2, MAX_OVER_MEAN * mean), 0, now)
        else:
            self._decide(now)
        self._cycle_seconds = now - self._closure.at if self._phase != "opening" else 0.0
        self._closure, self._closed_since = here, now
        self._pause(None, now)  # the first probe does not wait for Retry-After: one request's may be chance

    def _pause(self, retry_after_seconds: float | None, now: float) -> None:
        assert self._closed_since is not None
        pause = min(max(MIN_PAUSE_SECONDS, now - self._closed_since), MAX_PAUSE_SECONDS)
        if retry_after_seconds is not None and retry_after_seconds > 0:
            pause = min(retry_after_seconds, MAX_RETRY_AFTER_SECONDS)
        self.hold_until = max(self.hold_until, now + pause)
        self._is_probed = False
        self._decided_at = self._number

    def _decide(self, now: float) -> None:
        self._excess = 0.0
        self._decided_at = self._number
        self._note("rate limit", now)

    def _reopen(self, now: float) -> None:
        """Send again: the first time at the rate that got through until now, later at the pace of the last cut."""
        self._closed_since, self._next = None, now
        if self._phase == "opening":
            self._phase = "trial"
            self._begin_trial(self._number - self.refused, now)
        else:
            self._keep_pace(now)
            self._calm_until = max(self._calm_until, now + min(self._cycle_seconds, LAST_CALM_SECONDS))
        self._note("open again", now)

    def _begin_trial(self, accepted: int, now: float) -> None:
        assert self._began is not None
        self.pace = accepted / max(0.1, now - self._began)
        if accepted >= TRUSTED_REQUESTS:
            self._keep_pace(now)
        else:  # closed from the start, which says nothing of the rate
            self.pace = max(self.pace, RESTART_PER_SECOND)

    def _note(self, reason: str, now: float) -> None:
        assert self._began is not None
        self._changes.append(PaceChange(seconds=round(now - self._began, 3), pace=round(self.pace, 2), reason=reason))
