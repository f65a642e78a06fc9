"""Records as the texts that the store keeps: plain ASCII, whatever a model or a user has put into them.

data, details = encoded(record)      # two JSON objects: what is read often; state and trajectory, most of it
line(data, details)                  # the whole record as one line of JSON, and nothing is parsed for it
escaped("a\\ud800")                   # "a\\\\ud800": for a column
"""

import json
from typing import Any

from eval.runs.record import Record
from eval.runs.redaction import to_jsonable

_DETAILS = ("state", "trajectory")  # the last fields of a record


def encoded(record: Record) -> tuple[str, str]:
    """The record as two JSON objects: what is read often, and the details."""
    values = vars(record)
    return (
        _json({key: value for key, value in values.items() if key not in _DETAILS}),
        _json({key: values[key] for key in _DETAILS}),
    )


def _json(value: dict[str, Any]) -> str:
    """Most states are plain already, and `to_jsonable` takes longer than all the rest of a write."""
    try:
        return json.dumps(value, default=to_jsonable, allow_nan=False)
    except (ValueError, TypeError, RecursionError):  # not a number, a key that is no text, a loop
        return json.dumps(to_jsonable(value))


def line(data: str, details: str) -> str:
    return f"{data[:-1]}, {details[1:]}"


def escaped(text: str) -> str:
    """SQLite refuses lone surrogates and its own functions stop at a NUL; JSON's escapes are plain ASCII."""
    return json.dumps(text)[1:-1]


def unescaped(text: str) -> str:
    return str(json.loads(f'"{text}"'))
