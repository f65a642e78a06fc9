"""JSON that others may have written: a value of another kind than expected is an unknown one.

summary = read_object(folder / "summary.json")       # empty if there is none that can be read
as_text(summary.get("model")), as_number(summary.get("n"))
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

MAX_CHARS = 300  # of a text
MAX_NUMBER = 1e300
EMPTY: Mapping[str, object] = {}

Interval = tuple[float, float]


def read_object(path: Path) -> Mapping[str, object]:
    """Return a JSON object; empty if there is none that can be read."""
    try:
        return as_mapping(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return EMPTY


def as_mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else EMPTY


def as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def as_text(value: object) -> str:
    return value[:MAX_CHARS] if isinstance(value, str) else ""


def as_number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if abs(value) < MAX_NUMBER else None  # neither nan nor an integer that is no float


def as_interval(value: object) -> Interval | None:
    low, high = (as_number(each) for each in value) if isinstance(value, list) and len(value) == 2 else (None, None)
    return None if low is None or high is None else (low, high)
