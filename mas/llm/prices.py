"""Prices of models' tokens: own entries of `model.prices`, then the list of the package `genai-prices`.

A snapshot (`gpt-4o-mini-2024-07-18`) costs the same as its family (`gpt-4o-mini`) unless it has an entry of its own.
The cost of a model that neither knows is unknown, never 0. Nothing is fetched: the list is as old as the package.

    find_price("gpt-4o-mini-2024-07-18", {"gpt-4o-mini": Price(0.15, 0.6)}).cost_usd(1000, 0, 100)     # 0.00021
    find_price("gpt-4o-mini", {}, "openai").cached_input_usd_per_million                               # 0.075
"""

import functools
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


@dataclass
class ListedPrice(Price):
    """Price of the list, which may depend on the length or the time of a request; the fields are a short one's now."""

    name: str = ""
    provider: str = ""

    def cost_usd(self, input_tokens: int, cached_input_tokens: int, output_tokens: int) -> float:
        from genai_prices import Usage, calc_price

        usage = Usage(
            input_tokens=input_tokens,
            cache_read_tokens=min(cached_input_tokens, input_tokens),
            output_tokens=output_tokens,
        )
        return float(calc_price(usage, self.name, provider_id=self.provider).total_price)


FREE = Price(0.0, 0.0)  # the simulated model


def find_price(name: str, prices: Mapping[str, Price], provider: str | None = None) -> Price | None:
    """Return the price of a model; None if it is unknown.

    Args:
        name: of the model.
        prices: own entries.
        provider: whose list prices hold, by its name in `genai-prices`; None: those of no provider.
    """
    own = prices.get(name) or prices.get(_SNAPSHOT.sub("", name))
    return own or (find_listed_price(name, provider) if provider else None)


@functools.cache
def find_listed_price(name: str, provider: str) -> Price | None:
    """Return the price in the list; its import takes a quarter of a second."""
    from genai_prices import Usage, calc_price

    try:
        parts = [
            calc_price(usage, name, provider_id=provider)
            for usage in (
                Usage(input_tokens=1, output_tokens=0),
                Usage(input_tokens=0, output_tokens=1),
                Usage(input_tokens=1, cache_read_tokens=1, output_tokens=0),
            )
        ]
    except LookupError:
        return None
    first, output, cached = (float(each.total_price) * TOKENS for each in parts)
    return ListedPrice(first, output, cached, name, provider)
