"""What a model's tokens cost, as `conf/prices/` says, with the day on which that was looked up.

A snapshot (`gpt-4o-mini-2024-07-18`) costs what its family (`gpt-4o-mini`) does, unless it has an entry of its own.
A name without an entry has no price: its calls cost "unknown", never 0.

    price_of("gpt-4o-mini-2024-07-18", {"gpt-4o-mini": Price(0.15, 0.6)}).cost_usd(1000, 0, 100)     # 0.00021
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

TOKENS = 1_000_000  # that a price is for
_SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@dataclass
class Price:
    """US dollars for a million tokens."""

    input_usd_per_million: float
    output_usd_per_million: float
    cached_input_usd_per_million: float | None = None  # read from the provider's prompt cache; null: as other input
    as_of: str | None = None  # day of the look-up, ISO 8601

    def cost_usd(self, input_tokens: int, cached_input_tokens: int, output_tokens: int) -> float:
        """
        Args:
            input_tokens: cached ones included, as OpenAI counts them.
            cached_input_tokens: of these: read from the provider's cache.
            output_tokens: a reasoning model's thoughts included.
        """
        cached_price = self.cached_input_usd_per_million
        if cached_price is None:
            cached_price = self.input_usd_per_million
        fresh = max(0, input_tokens - cached_input_tokens)
        spent = fresh * self.input_usd_per_million + cached_input_tokens * cached_price
        return (spent + output_tokens * self.output_usd_per_million) / TOKENS


FREE = Price(0.0, 0.0)  # the simulated model


def find_price(name: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of the model of that name; None: unknown."""
    return prices.get(name) or prices.get(_SNAPSHOT.sub("", name))
