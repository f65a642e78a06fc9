"""Values of a record without secrets: a refusal may repeat the key, and the steps quote the refusal.

cleaned({"inputs": {"key": "sk-123"}}, redact)      # {"inputs": {"key": "***"}}
"""

import json
from collections.abc import Callable
from typing import Any

from eval.plain import plain

Redact = Callable[[str], str]


def cleaned(value: Any, redact: Redact) -> Any:
    """Text by text, and as the store will hold it, only where there is a secret: that walk is slow."""
    text = _as_text(value)
    if text is not None and redact(text) == text:
        return value
    return _each_text(plain(value), redact)


def _as_text(value: Any) -> str | None:
    """All texts in it, as they are, among marks of JSON; None if JSON cannot hold it."""
    try:
        text = json.dumps(value, default=plain, ensure_ascii=False)
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
