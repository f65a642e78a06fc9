"""On which terms an LM's requests are made: where they go, what may be sent, what it costs, how often it is tried.

CallTerms("https://api.openai.com/v1", Limits("gpt-4o"), price=Price(2.5, 10.0), gate=gate, num_retries=3)
"""

from dataclasses import dataclass
from typing import Any

from mas.llm.limits import Limits
from mas.llm.prices import Price

NO_LIMITS = Limits()


@dataclass(frozen=True)
class CallPolicy:
    """Shared by all calls of one LM; the gate by all LMs of a profile."""

    url: str = ""  # of the endpoint, as replies are kept under it; "offline": the simulated model
    limits: Limits = NO_LIMITS
    price: Price | None = None  # None: unknown
    gate: Any = None  # mas.llm.rate_limiter.RateLimiter; None: any number of requests at once
    counts_tokens: bool = False  # the gate limits tokens a minute: it is told how many a request will need
    num_retries: int = 0
    retry_base_seconds: float = 1.0  # bound of the first wait
    deadline_seconds: float = float("inf")  # of a call with its retries
