"""What questions cost: the usage that a trace's spans add up to, and the money that a whole run may spend.

usage_of(trace.spans).cost_usd      # 0.0013; None as soon as the price of one call is unknown
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eval.record import Usage
from mas.tracing.trace import Span


def usage_of(spans: Sequence[Span]) -> Usage:
    """Sums over the spans of kind "lm" and "tool"; their attributes are set by the model client."""
    calls = [each for each in spans if each.kind == "lm"]

    def count(attribute: str) -> int:
        return sum(bool(each.attributes.get(attribute)) for each in calls)

    def total(attribute: str) -> int:
        return sum(each.attributes.get(attribute) or 0 for each in calls)

    return Usage(
        lm_calls=len(calls),
        retries=count("retry"),
        replayed_calls=count("replayed"),
        cached_calls=count("cached"),
        tool_calls=sum(each.kind == "tool" for each in spans),
        input_tokens=total("input_tokens"),
        cached_input_tokens=total("cached_input_tokens"),
        output_tokens=total("output_tokens"),
        cost_usd=_cost(calls),
    )


def _cost(calls: Sequence[Span]) -> float | None:
    """A part of the sum would look like the whole. A call that failed before it was answered cost nothing."""
    costs = [each.attributes.get("cost_usd", 0.0 if each.error else None) for each in calls]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if calls and len(known) == len(costs) else None


@dataclass
class Budget:
    """`run.max_cost_usd`, of all sessions of the run together; `used_up` is called once, when it is reached."""

    max_cost_usd: float | None
    used_up: Callable[[str], None]
    spent_usd: float = 0.0

    def spend(self, cost_usd: float) -> None:
        before, self.spent_usd = self.spent_usd, self.spent_usd + cost_usd
        if self.max_cost_usd is not None and before < self.max_cost_usd <= self.spent_usd:
            self.used_up(f"the run has spent ${self.spent_usd:.4f} (run.max_cost_usd={self.max_cost_usd:g})")
