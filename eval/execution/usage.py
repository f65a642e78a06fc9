"""Numbers of one sample: what the spans of its trace add up to.

sum_usage(trace.spans).cost_usd         # 0.0013; None as soon as the price of one call is unknown
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval.runs.record import PAID, Record, Usage
from mas.runtime.trace import MISSHAPEN, Span

MAX_NAME_CHARS = 60  # a model may call a tool that does not exist by any name


def sum_usage(spans: Sequence[Span]) -> Usage:
    """Return the sums over the spans of kind "lm" and "tool"; their attributes are set by the model client."""
    calls = [each for each in spans if each.kind == "lm"]
    tools = [each for each in spans if each.kind == "tool"]
    # A failed call without a note cost nothing: see `mas/llm/engine.py` for those that may cost something.
    costs = [each.attributes.get("cost_usd", 0.0 if each.error else None) for each in calls]
    known = [cost for cost in costs if cost is not None]
    misshapen = sum(event["name"] in MISSHAPEN for each in spans for event in each.events)

    def count(attribute: str, among: Sequence[Span] = calls) -> int:
        return sum(bool(each.attributes.get(attribute)) for each in among)

    def total(attribute: str) -> int:
        return sum(each.attributes.get(attribute) or 0 for each in calls)

    return Usage(
        lm_calls=len(calls),
        retries=count("retry"),
        misshapen_replies=count("repaired_arguments") + misshapen,
        replayed_calls=count("replayed"),
        cached_calls=count("cached"),
        tool_calls=len(tools),
        replayed_tool_calls=count("replayed", tools),
        input_tokens=total("input_tokens"),
        cached_input_tokens=total("cached_input_tokens"),
        output_tokens=total("output_tokens"),
        cost_usd=sum(known) if calls and len(known) == len(costs) else None,
        known_cost_usd=sum(known),
        unknown_cost_calls=len(costs) - len(known),
    )


def add_unseen_usage(record: Record, paid: Usage) -> Usage:
    """Return the record's usage with what its sample was charged for beyond its trajectory.

    That is what an earlier session paid for and nobody asked for again: the request was cut off, or is now another one.

    Args:
        record: complete.
        paid: for the question, in all sessions.
    """
    notes = [each["attributes"] for each in record.trajectory if each["kind"] == "lm"]
    charged = [
        each for each in notes if "cost_usd" in each and not each.get("cached")
    ]  # now, or before it was replayed
    seen = {name: sum(each.get(name) or 0 for each in charged) for name in PAID}
    seen["lm_calls"] = len(charged)
    seen["known_cost_usd"] = sum(each["cost_usd"] or 0.0 for each in charged)
    seen["unknown_cost_calls"] = sum(each["cost_usd"] is None for each in charged)
    unseen = {name: max(0, getattr(paid, name) - seen[name]) for name in PAID}
    if not unseen["lm_calls"]:
        return record.usage
    usage = replace(record.usage, known_cost_usd=record.usage.at_least_usd)
    for name, value in unseen.items():
        setattr(usage, name, getattr(usage, name) + value)
    usage.cost_usd = None if usage.unknown_cost_calls else usage.known_cost_usd
    return usage


def count_tool_calls(
    steps: Iterable[Mapping[str, Any]],
) -> tuple[dict[str, int], dict[str, int], dict[str, str]]:
    """Return the calls by tool, and of each tool that failed how often it did, and its first error."""
    calls, errors, first = Counter[str](), Counter[str](), dict[str, str]()
    for step in steps:
        if step["kind"] == "tool":
            name = str(step["name"])[:MAX_NAME_CHARS]
            calls[name] += 1
            if error := step.get("error"):
                errors[name] += 1
                first.setdefault(name, str(error).partition(": ")[2])
    return dict(calls), dict(errors), first
