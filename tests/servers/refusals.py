"""Rules by which a server refuses requests, for the fake servers and for simulations; time is given by the caller.

rule = build_rule("bucket", per_second=50, burst=2)
rule.take(now=0.0)       # 0.0: accepted; otherwise the seconds until the request would be
"""

import random
from dataclasses import dataclass, field
from typing import Protocol


class Rule(Protocol):
    """Decides on one request after the other."""

    def take(self, now: float) -> float:
        """Return 0 if the request is accepted, otherwise the seconds until it would be. `now` never decreases."""
        ...


@dataclass
class Bucket:
    """Token bucket, full at first."""

    per_second: float
    burst: float
    level: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        self.level = self.burst

    def take(self, now: float) -> float:
        self.level, self.at = min(self.burst, self.level + (now - self.at) * self.per_second), now
        if self.level >= 1:
            self.level -= 1
            return 0.0
        return (1 - self.level) / self.per_second


@dataclass
class Window:
    """Fixed windows: so many requests in each, counted from 0."""

    per_second: float
    seconds: float
    used: int = 0
    number: int = -1

    def take(self, now: float) -> float:
        if (number := int(now / self.seconds)) != self.number:
            self.number, self.used = number, 0
        if self.used < self.per_second * self.seconds:
            self.used += 1
            return 0.0
        return (number + 1) * self.seconds - now


@dataclass
class Chance:
    """Refuses a share of the requests whatever their rate, and hands the others on."""

    share: float
    inner: Rule | None = None
    seconds: float = 1.0  # that it names
    draw: random.Random = field(default_factory=lambda: random.Random(1))

    def take(self, now: float) -> float:
        if self.draw.random() < self.share:
            return self.seconds
        return self.inner.take(now) if self.inner else 0.0


@dataclass
class Shared:
    """A rule that a neighbour uses as well, who sends at random times and never slows down."""

    inner: Rule
    neighbour_per_second: float
    draw: random.Random = field(default_factory=lambda: random.Random(2))
    next_at: float = 0.0

    def take(self, now: float) -> float:
        while self.next_at <= now:
            self.inner.take(self.next_at)
            self.next_at += self.draw.expovariate(self.neighbour_per_second)
        return self.inner.take(now)


@dataclass
class Changing:
    """A bucket whose rate changes: pairs of time and rate, the first at 0."""

    rates: tuple[tuple[float, float], ...]
    bucket: Bucket = field(init=False)

    def __post_init__(self) -> None:
        self.bucket = Bucket(self.rates[0][1], self.rates[0][1])

    def take(self, now: float) -> float:
        rate = next(rate for at, rate in reversed(self.rates) if at <= now)
        if rate != self.bucket.per_second:
            self.bucket.per_second = self.bucket.burst = rate
        return self.bucket.take(now)
