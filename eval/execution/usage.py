"""Numbers of one sample: what the spans of its trace add up to.

sum_usage(trace.spans).cost_usd         # 0.0013; None as soon as the price of one call is unknown
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval.runs.record import PAID, Record, Usage
from mas.runtime.trace import MISSHAPEN, Span

Step = Mapping[str, Any]  # a span of a trajectory, as a dictionary


def sum_usage(spans: Sequence[Span]) -> Usage:
    """Return the sums over the spans of kind "lm" and "tool"; their attributes are set by the model client."""
    calls = [each for each in spans if each.kind == "lm"]
    tools = [each for each in spans if each.kind == "tool"]
    costs = [_cost(each) for each in calls]
    known = [cost for cost in costs if cost is not None]
    events = [event for each in spans for event in each.events]

    def count(attribute: str, among: Sequence[Span] = calls) -> int:
        return sum(bool(each.attributes.get(attribute)) for each in among)

    def total(attribute: str) -> int:
        return sum(each.attributes.get(attribute) or 0 for each in calls)

    return Usage(
        lm_calls=len(calls),
        retries=count("retry"),
        misshapen_replies=count("repaired_arguments") + sum(each["name"] in MISSHAPEN for each in events),
        replayed_calls=count("replayed"),
        cached_calls=count("cached"),
        tool_calls=len(tools),
        replayed_tool_calls=count("replayed", tools),
        cached_tool_calls=count("cached", tools),
        input_tokens=total("input_tokens"),
        cached_input_tokens=total("cached_input_tokens"),
        output_tokens=total("output_tokens"),
        cost_usd=sum(known) if calls and len(known) == len(costs) else None,
        known_cost_usd=sum(known),
        unknown_cost_calls=len(costs) - len(known),
        oldest_cached_tool_result=min(
            (each.attributes["kept_at"] for each in tools if "kept_at" in each.attributes), default=None
        ),
    )


def _cost(call: Span) -> float | None:
    """Return the cost of a call; None if it is unknown.

    A failed call without a note cost nothing: see `mas/llm/engine.py` for those that may cost something.
    """
    cost: float | None = call.attributes.get("cost_usd", 0.0 if call.error else None)
    return cost


def add_unseen_usage(record: Record, paid: Usage) -> Usage:
    """Return the record's usage with what its sample was charged for beyond its trajectory.

    That is what an earlier session paid for and nobody asked for again: the request was cut off, or is now another one.

    Args:
        record: complete.
        paid: for the question, in all sessions.
    """
    seen = _sum_paid(record.trajectory)
    unseen = {name: max(0, getattr(paid, name) - getattr(seen, name)) for name in PAID}
    if not unseen["lm_calls"]:
        return record.usage
    usage = replace(record.usage, known_cost_usd=record.usage.at_least_usd)
    for name, value in unseen.items():
        setattr(usage, name, getattr(usage, name) + value)
    usage.cost_usd = None if usage.unknown_cost_calls else usage.known_cost_usd
    return usage


def _sum_paid(trajectory: Sequence[Step]) -> Usage:
    """Return the usage of its requests that were charged for: now, or before they were replayed."""
    seen = Usage()
    for noted in (each["attributes"] for each in trajectory if each["kind"] == "lm"):
        if "cost_usd" in noted and not noted.get("cached"):
            seen.lm_calls += 1
            seen.input_tokens += noted.get("input_tokens") or 0
            seen.cached_input_tokens += noted.get("cached_input_tokens") or 0
            seen.output_tokens += noted.get("output_tokens") or 0
            seen.known_cost_usd += noted["cost_usd"] or 0.0
            seen.unknown_cost_calls += noted["cost_usd"] is None
    return seen


MAX_NAME_CHARS = 60  # a model may call a tool that does not exist by any name


def count_tool_calls(
    steps: Iterable[Mapping[str, object]],
) -> tuple[dict[str, int], dict[str, int], dict[str, str]]:
    """Return the calls by tool, how many failed, and each tool's first error; only tools that failed are in the latter.

    A search that Wikipedia answered because the web's search failed has failed, although its agent got something.
    """
    calls, errors = Counter[str](), Counter[str]()
    first: dict[str, str] = {}
    for step in steps:
        if step["kind"] == "tool":
            name = str(step["name"])[:MAX_NAME_CHARS]
            calls[name] += 1
            errors[name] += has_failed(step)
            if step.get("error"):
                first.setdefault(name, str(step["error"]).partition(": ")[2])
    return dict(calls), {name: n for name, n in errors.items() if n}, first


def has_failed(step: Mapping[str, object]) -> bool:
    """Return whether a span of kind "tool", as a dictionary, failed."""
    return bool(step.get("error"))
