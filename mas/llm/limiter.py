"""Contract of a rate limiter (`mas/llm/rate_limiter.py`), as the model client and a run's progress know it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self


@dataclass(frozen=True)
class Traffic:
    """Requests of an endpoint until now, and the pace."""

    answered: int
    refused: int  # because of the rate (429)
    failed: int  # for another reason
    in_flight: int
    waiting: int  # for their turn
    pace: float | None  # requests per second; None: nothing was refused yet


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
