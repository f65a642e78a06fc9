"""Prices of models' tokens (`conf/prices/`), each with the day on which it was looked up.

A snapshot (`gpt-4o-mini-2024-07-18`) costs the same as its family (`gpt-4o-mini`) unless it has an entry of its own.
The cost of a model without an entry is unknown, never 0.

    find_price("gpt-4o-mini-2024-07-18", {"gpt-4o-mini": Price(0.15, 0.6)}).cost_usd(1000, 0, 100)     # 0.00021
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

TOKENS = 1_000_000  # the unit of the prices
_SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@dataclass
class Price:
    """US dollars per million tokens."""

    input_usd_per_million: float
    output_usd_per_million: float
    cached_input_usd_per_million: float | None = None  # read from the provider's prompt cache; null: as other input
    as_of: str | None = None  # day of the look-up, ISO 8601

    def cost_usd(self, input_tokens: int, cached_input_tokens: int, output_tokens: int) -> float:
        """Return the cost of a reply.

        Args:
            input_tokens: including cached ones, as OpenAI counts them.
            cached_input_tokens: read from the provider's prompt cache.
            output_tokens: including a reasoning model's thoughts.
        """
        cached_price = self.cached_input_usd_per_million
        if cached_price is None:
            cached_price = self.input_usd_per_million
        uncached = max(0, input_tokens - cached_input_tokens) * self.input_usd_per_million
        return (uncached + cached_input_tokens * cached_price + output_tokens * self.output_usd_per_million) / TOKENS


FREE = Price(0.0, 0.0)  # the simulated model


def find_price(name: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a model; None if it is unknown."""
    return prices.get(name) or prices.get(_SNAPSHOT.sub("", name))
