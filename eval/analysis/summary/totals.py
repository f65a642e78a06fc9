"""What a run's records cost, added up one by one.

spending = Spending()
for record in records: spending.add(record)
spending.usage.to_dict()["cost_usd"]      # 0.0132
"""

from collections import Counter, defaultdict
from dataclasses import fields
from typing import Any

from eval.runs.record import Record, Usage

_COUNTS = tuple(each.name for each in fields(Usage) if each.type is int)


class UsageTotal:
    """Sums of `Usage`. The cost is null as soon as one is unknown, for a partial sum would look like the whole."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._known_cost_usd = 0.0
        self._known = self._unknown = False
        self._oldest: str | None = None

    def add(self, usage: Usage) -> None:
        for name in _COUNTS:
            self._counts[name] += getattr(usage, name)
        self._known_cost_usd += usage.at_least_usd
        self._oldest = min(filter(None, (self._oldest, usage.oldest_cached_tool_result)), default=None)
        if usage.cost_usd is None:
            self._unknown |= usage.lm_calls > 0  # a question that failed before its first call cost nothing
        else:
            self._known = True

    def to_dict(self) -> dict[str, Any]:
        known = self._known_cost_usd
        cost_usd = known if self._known and not self._unknown else None
        costs = {"cost_usd": cost_usd, "known_cost_usd": known}
        return {**self._counts, **costs, "oldest_cached_tool_result": self._oldest}


class Spending:
    """Of every attempt, for all of them were paid for."""

    def __init__(self) -> None:
        self.usage, self.scorer_usage = UsageTotal(), UsageTotal()
        self.waited_seconds = 0.0
        self.calls_by_tool, self.tool_errors = Counter[str](), Counter[str]()
        self._agents: defaultdict[str, float] = defaultdict(float)

    def add(self, record: Record) -> None:
        self.usage.add(record.usage)
        self.scorer_usage.add(record.scorer_usage)
        self.waited_seconds += record.waited_seconds
        self.calls_by_tool.update(record.calls_by_tool)
        self.tool_errors.update(record.tool_errors)
        for agent, seconds in record.seconds_by_agent.items():
            self._agents[agent] += seconds

    def by_agent(self) -> dict[str, float]:
        """Wall seconds."""
        return {agent: round(seconds, 3) for agent, seconds in self._agents.items()}
