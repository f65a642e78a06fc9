"""Adaptive pace of requests, learnt from the refusals (429) of a server that does not declare its rate.

A refusal means that the pace is above the server's limit, or it is chance (a shared key, an overloaded provider), and
the same share is refused at every pace. The rules that tell them apart (cut, background, growth, closed) are in
docs/explanation/rate-limits.md, with figures from `tests/bench/limiter_simulation.py`, which the constants were chosen
by. Requests count in the order of sending; refusals of those sent before the last decision belong to that decision.
"""

import math
from dataclasses import dataclass, replace

OPENING_PER_SECOND = 500.0  # pace before anything is known
RESTART_PER_SECOND = 20.0  # first pace if the server was closed from the start
CREDIT_SECONDS = 0.1  # lateness of a timer that the pace makes up for
HOLD_SECONDS, MAX_HOLD_SECONDS, HOLD_REQUESTS = 8.0, 30.0, 50  # after a cut; longer until so many are sent
DOUBLING_SECONDS = 2.5
MEASURED_REQUESTS = 10  # that were accepted before the first closure, or its rate says nothing
MARGIN = 0.97  # of a measured rate
MAX_OVER_MEAN = 1.2  # pace after a closure, relative to what got through
MIN_PACE = 0.02  # requests per second
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.25, 1.0  # without Retry-After; longer the longer it is closed
MAX_RETRY_AFTER_SECONDS = 60.0
REFUSAL_SECONDS = 0.15  # that a refusal takes, before one was seen; a probe must be refused in twice that
MAX_PROBE_SECONDS = 1.0  # however long earlier refusals took
MIN_BACKGROUND = 0.02  # share tolerated from the start
PRIOR_REQUESTS = 15.0  # weight of an unknown background as 0: with less, a limit that falls far is taken for chance
EXCESS = 0.2  # the cut's test is sharpest if a fifth of what the background lets pass is refused as well
CUT_EVIDENCE, CLOSED_EVIDENCE = 7.0, 10.0  # natural logarithms of likelihood ratios
MIN_SPAN_SECONDS = 0.1  # below which no rate is measured


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
    """One request, and a place in the order of sending from which rates are measured."""

    number: int  # in the order of sending
    at: float  # monotonic seconds
    refused: int  # of all requests until then
    is_held: bool = False  # sent at a pace that is held: counts for the background

    def count_accepted(self, later: "SentRequest") -> int:
        return (later.number - self.number) - (later.refused - self.refused)

    def measure_rate(self, later: "SentRequest") -> float:
        """Return the requests per second accepted from here to a later request."""
        return self.count_accepted(later) / max(MIN_SPAN_SECONDS, later.at - self.at)


class AdaptivePace:
    """The policy alone, without clock and queue; `now` is monotonic seconds and never decreases."""

    def __init__(self) -> None:
        self.pace = OPENING_PER_SECOND
        self.hold_until = 0.0  # end of the present pause
        self.refused = 0
        self._next = self._grow_at = 0.0
        self._number = self._judged = self._decided_at = 0  # newest request: sent, refused, sent before a decision
        self._is_opening, self._is_held, self._is_probed = True, False, False
        self._closed_since: float | None = None
        self._refusal_seconds = REFUSAL_SECONDS  # the longest
        self._held_refused = self._held_sent = 0.0
        self._excess = 0.0  # evidence against the background
        self._streak = self._opened = SentRequest(0, 0.0, 0)  # begin of the present excess; the last time it was opened

    @property
    def background(self) -> float:
        """Share of requests that is refused whatever the pace."""
        return max(MIN_BACKGROUND, self._held_refused / (self._held_sent + PRIOR_REQUESTS))

    @property
    def next_send_at(self) -> float:
        """Time before which nothing may be sent."""
        return max(self.hold_until, self._next)

    def record_send(self, now: float) -> SentRequest:
        """Number a request that is being sent, and space the next one."""
        if self._closed_since is not None and self._is_probed:  # the probe was not refused in time
            self._reopen(now)
        if self._number == 0:
            self._opened = SentRequest(0, now, 0)
        self._number += 1
        if self._closed_since is not None:
            self._is_probed, self._next = True, now + min(2 * self._refusal_seconds, MAX_PROBE_SECONDS)
            return SentRequest(self._number, now, self.refused)
        gap = 1 / self.pace
        is_waited_for = self._next > now - CREDIT_SECONDS
        self._next = max(self._next, now - CREDIT_SECONDS) + gap
        if is_waited_for and now >= self._grow_at:
            self._is_held = False
            self.pace *= 2 ** min(1.0, gap / DOUBLING_SECONDS)
        self._held_sent += self._is_held
        return SentRequest(self._number, now, self.refused, self._is_held)

    def record_rate_limit(self, sent: SentRequest, retry_after_seconds: float | None, now: float) -> None:
        """Record a refused request (429)."""
        accepted = max(0, sent.number - self._judged - 1)  # since the last refusal
        self._judged = max(self._judged, sent.number)
        self.refused += 1
        self._refusal_seconds = max(self._refusal_seconds, now - sent.at)
        if sent.number <= self._decided_at:
            return
        if self._closed_since is not None:
            self._pause(self._closed_since, retry_after_seconds, now)
            return
        self._held_refused += sent.is_held
        here = replace(sent, refused=self.refused)
        self._add_evidence(here, accepted)
        in_a_row = 1 + here.refused - self._streak.refused
        is_closed = not self._streak.count_accepted(here) and in_a_row * -math.log(self.background) >= CLOSED_EVIDENCE
        is_excess = self._excess >= CUT_EVIDENCE
        if is_closed or (is_excess and self._is_opening):
            self._closed_since = now
            self._pause(now, None, now)  # the first probe does not wait for Retry-After: one request's may be chance
        elif is_excess:
            self._cut(self._streak.measure_rate(here), now)

    def _add_evidence(self, here: SentRequest, accepted: int) -> None:
        """Weigh "a share `more` is refused" against "the background is": a CUSUM of log-likelihood ratios."""
        more = self.background + (1 - self.background) * EXCESS
        self._excess = max(0.0, self._excess + accepted * math.log(1 - EXCESS))
        if self._excess == 0.0:
            self._streak = here
        self._excess += math.log(more / self.background)

    def _pause(self, closed_since: float, retry_after_seconds: float | None, now: float) -> None:
        """Send nothing for a while, and then one probe."""
        pause = min(max(MIN_PAUSE_SECONDS, now - closed_since), MAX_PAUSE_SECONDS)
        if retry_after_seconds is not None and retry_after_seconds > 0:
            pause = min(retry_after_seconds, MAX_RETRY_AFTER_SECONDS)
        self.hold_until = max(self.hold_until, now + pause)
        self._is_probed, self._decided_at = False, self._number

    def _reopen(self, now: float) -> None:
        """Send again, at the rate that got through since the last time: a server's whole window, if it has any."""
        here = SentRequest(self._number, now, self.refused)
        accepted, rate = self._opened.count_accepted(here), self._opened.measure_rate(here)
        if self._is_opening:
            self.pace = rate
        self._cut(min((rate + self.pace) / 2, MAX_OVER_MEAN * rate), now)
        if self._is_opening:
            self._is_held = False  # what a bucket held at first is part of this rate
            if accepted < MEASURED_REQUESTS:
                self.pace, self._grow_at = max(self.pace, RESTART_PER_SECOND), now
        self._opened, self._closed_since, self._is_opening, self._next = here, None, False, now

    def _cut(self, rate: float, now: float) -> None:
        """Lower the pace to a measured rate, at most by half, and hold it."""
        half = self.pace / 2
        self._is_held = rate >= half
        self.pace = max(MIN_PACE, MARGIN * min(max(rate, half), self.pace))
        hold = max(HOLD_SECONDS, min(HOLD_REQUESTS / self.pace, MAX_HOLD_SECONDS))
        self._next, self._grow_at = now + 1 / self.pace, max(self._grow_at, now + hold)
        self._held_refused, self._held_sent = self._held_refused / 2, self._held_sent / 2  # forget the old by and by
        self._excess, self._decided_at = 0.0, self._number
