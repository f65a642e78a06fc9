"""Prices of models' tokens: own entries of `model.prices`, then the list of the package `genai-prices`.

A snapshot (`gpt-4o-mini-2024-07-18`) costs the same as its family unless it has an own entry. The cost of a model that
neither knows is unknown, never 0. Nothing is fetched: the list is as old as the package.
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
    cached_input_usd_per_million: float | None = None  # from the prompt cache; null: as other input

    @property
    def is_free(self) -> bool:
        return not (self.input_usd_per_million or self.output_usd_per_million)

    def cost_usd(self, input_tokens: int, cached_input_tokens: int, output_tokens: int) -> float:
        """Return the cost of a reply; input includes cached tokens, output a model's thoughts."""
        cached_price = self.cached_input_usd_per_million
        if cached_price is None:
            cached_price = self.input_usd_per_million
        uncached = max(0, input_tokens - cached_input_tokens) * self.input_usd_per_million
        return (uncached + cached_input_tokens * cached_price + output_tokens * self.output_usd_per_million) / TOKENS


@dataclass
class ListedPrice(Price):
    """Price of the list. It may depend on length and time: the fields are those of a short request now."""

    name: str = ""
    provider: str = ""

    def cost_usd(self, input_tokens: int, cached_input_tokens: int, output_tokens: int) -> float:
        from genai_prices import Usage, calc_price  # takes a quarter of a second

        cached = min(cached_input_tokens, input_tokens)
        usage = Usage(input_tokens=input_tokens, cache_read_tokens=cached, output_tokens=output_tokens)
        return float(calc_price(usage, self.name, provider_id=self.provider).total_price)


FREE = Price(0.0, 0.0)  # the simulated model


def find_price(name: str, prices: Mapping[str, Price], provider: str | None = None) -> Price | None:
    """Return a model's price: its own entry, or that of a provider of the list; None: unknown."""
    own = prices.get(name) or prices.get(_SNAPSHOT.sub("", name))
    return own or (find_listed_price(name, provider) if provider else None)


@functools.cache
def find_listed_price(name: str, provider: str) -> Price | None:
    price = ListedPrice(0.0, 0.0, None, name, provider)
    try:
        own, output, cached = (price.cost_usd(*tokens) * TOKENS for tokens in ((1, 0, 0), (0, 0, 1), (1, 1, 0)))
    except LookupError:
        return None
    return ListedPrice(own, output, cached, name, provider)
