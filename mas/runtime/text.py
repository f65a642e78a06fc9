"""Small functions on texts, and on values that become texts."""

import ast
import dataclasses
import math
from collections.abc import Mapping
from datetime import date
from pathlib import PurePath
from typing import Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

T = TypeVar("T")

_MAX_DEPTH = 40  # of containers


def replace_surrogates(value: T) -> T:
    """Return a copy in which `?` replaces half surrogate pairs, as a truncated escape leaves them.

    No provider, database or file takes such text; DSPy refuses a whole request for one such character.
    """
    replaced: object = value
    if isinstance(value, str):
        replaced = value.encode("utf-8", "replace").decode("utf-8")
    elif isinstance(value, dict):
        replaced = {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        replaced = type(value)(replace_surrogates(item) for item in value)
    return cast(T, replaced)


def parse_python(text: str, mode: Literal["exec", "eval"] = "exec") -> Any:
    """Return `ast.parse` of the text, although another thread may parse as well (python/cpython#106905)."""
    for _ in range(3):
        try:
            return ast.parse(text, mode=mode)
        except SystemError:  # the depth of both texts is counted in one number
            continue
    return ast.parse(text, mode=mode)


def format_count(n: int, noun: str) -> str:
    """Return number and noun, which gets an `s` unless there is one: `1 answer`, `2 answers`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def name_type(value: object) -> str:
    """Return the value's type for a sentence on a wrong one: `a list`, `an int`, `None`."""
    name = type(value).__name__
    if value is None:
        return "None"
    return f"an {name}" if name[:1] in "aeiouAEIOU" else f"a {name}"


def is_web_address(url: str) -> bool:
    """Return whether it is a web address with a host and without a user, a query or a fragment."""
    try:
        parts = urlsplit(url)
        is_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_more = parts.username or parts.password or parts.query or parts.fragment
    return parts.scheme in ("http", "https") and is_host and not is_more


def to_jsonable(value: object, depth: int = 0) -> Any:
    """Return the value as JSON can hold it: models as objects, sets as sorted lists, the rest as `repr`.

    Of a path only the name is kept: an absolute one would put this machine into the record.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, PurePath):
        return value.name
    if isinstance(value, date):
        return value.isoformat()
    if depth >= _MAX_DEPTH:  # also how a structure that contains itself ends
        return repr(value)
    depth += 1
    if isinstance(value, Mapping):
        texts = (key if isinstance(key, str) else str(to_jsonable(key)) for key in value)
        return {key: to_jsonable(element, depth) for key, element in zip(texts, value.values(), strict=True)}
    if isinstance(value, list | tuple):
        return [to_jsonable(element, depth) for element in value]
    if isinstance(value, set | frozenset):
        return sorted((to_jsonable(element, depth) for element in value), key=repr)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_jsonable(getattr(value, each.name), depth) for each in dataclasses.fields(value)}
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return to_jsonable(value.model_dump(), depth)
    return repr(value)
