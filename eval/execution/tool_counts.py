"""How often each tool was called, and how often in vain.

calls, errors = tool_counts(record.trajectory)
errors["web_search"] / calls["web_search"]      # 0.5: half of the searches failed

A search that Wikipedia answered, since the web's search failed, has failed, although its agent got something.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

MAX_NAME_CHARS = 60  # a model may call a tool that does not exist by any name


def count_tool_calls(steps: Iterable[Mapping[str, Any]]) -> tuple[dict[str, int], dict[str, int]]:
    """Calls by tool, and those of them that failed; tools without a failure are not among the latter."""
    calls, errors = Counter[str](), Counter[str]()
    for step in steps:
        if step["kind"] == "tool":
            name = str(step["name"])[:MAX_NAME_CHARS]
            calls[name] += 1
            errors[name] += has_failed(step)
    return dict(calls), {name: n for name, n in errors.items() if n}


def has_failed(step: Mapping[str, Any]) -> bool:
    """`step`: a span of kind "tool", as a dictionary."""
    return bool(step.get("error") or (step.get("attributes") or {}).get("substitute"))
