"""Any value as what JSON can hold: what a system left in its state, a log line's fields.

plain({"seen": {"b", "a"}, "file": Path("/data/a.csv")})      # {"seen": ["a", "b"], "file": "a.csv"}
"""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

_MAX_DEPTH = 40


def to_jsonable(value: Any, depth: int = 0) -> Any:
    """The value as what JSON can hold, whatever a system left in its state; never raises for the value's type.

    Pydantic models and dataclasses become objects, sets become sorted lists, paths their bare name (an absolute path
    would put this machine into the record), and what remains its `repr`.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, PurePath):
        return value.name
    if depth >= _MAX_DEPTH:  # also how a structure that contains itself ends
        return repr(value)
    return _plain_container(value, depth + 1)


def _plain_container(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {_plain_key(key): to_jsonable(element, depth) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(element, depth) for element in value]
    if isinstance(value, set | frozenset):
        return sorted((to_jsonable(element, depth) for element in value), key=repr)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_jsonable(getattr(value, each.name), depth) for each in dataclasses.fields(value)}
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return to_jsonable(value.model_dump(), depth)
    return repr(value)


def _plain_key(key: Any) -> str:
    return key if isinstance(key, str) else str(to_jsonable(key))


Redact = Callable[[str], str]


def redact(value: Any, redact: Redact) -> Any:
    """Text by text, and as the store will hold it, only where there is a secret: that walk is slow."""
    text = _as_text(value)
    if text is not None and redact(text) == text:
        return value
    return _each_text(to_jsonable(value), redact)


def _as_text(value: Any) -> str | None:
    """All texts in it, as they are, among marks of JSON; None if JSON cannot hold it."""
    try:
        text = json.dumps(value, default=to_jsonable, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return None
    return text.replace('\\"', '"').replace("\\\\", "\\")


def _each_text(value: Any, change: Redact) -> Any:
    """A JSON value with its texts changed, those used as keys left alone."""
    if isinstance(value, dict):
        return {key: _each_text(element, change) for key, element in value.items()}
    if isinstance(value, list):
        return [_each_text(element, change) for element in value]
    return change(value) if isinstance(value, str) else value
