"""Calls and failures of each tool in a trajectory.

    calls, errors = count_tool_calls(record.trajectory)
    errors["web_search"] / calls["web_search"]      # 0.5: half of the searches failed

A search that Wikipedia answered because the web search failed counts as failed, although its agent got a result.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

MAX_NAME_CHARS = 60  # a model may call a tool that does not exist by any name


def count_tool_calls(steps: Iterable[Mapping[str, object]]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the calls by tool, and the failed ones; tools without a failure are not among the latter."""
    calls, errors = Counter[str](), Counter[str]()
    for step in steps:
        if step["kind"] == "tool":
            name = str(step["name"])[:MAX_NAME_CHARS]
            calls[name] += 1
            errors[name] += has_failed(step)
    return dict(calls), {name: n for name, n in errors.items() if n}


def has_failed(step: Mapping[str, object]) -> bool:
    """Return whether a span of kind "tool", as a dictionary, failed."""
    attributes = step.get("attributes")
    return bool(step.get("error")) or (isinstance(attributes, dict) and bool(attributes.get("substitute")))
