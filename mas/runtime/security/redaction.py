"""Removal of secrets from texts and values, also in the encodings in which a server, a page or a log repeats them.

redact = build_redactor(("sk-1/23456789",))
redact("key sk-1/23456789, c2stMS8yMzQ1Njc4OQ==, sk-1%2F23456789")      # "key ***, ***==, ***"
redact_value({"url": "http://host/?key=sk-1/23456789"}, redact)        # {"url": "http://host/?key=***"}
"""

import base64
import functools
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import quote, quote_plus

from mas.runtime.text import to_jsonable

MASK = "***"
MIN_SECRET_CHARS = 8  # a placeholder such as "x" is no secret, and replacing it would spoil every text
_MIN_CHARS = 8  # of an encoded form: a shorter one occurs by chance

Redact = Callable[[str], str]


@functools.lru_cache(maxsize=16)
def build_redactor(secrets: tuple[str, ...]) -> Redact:
    """Return a function that replaces the secrets by `***`, in each of their forms."""
    forms = {form for secret in secrets for form in encode_secret(secret).values()}
    longest_first = sorted(forms, key=len, reverse=True)  # one may contain another

    def redact(text: str) -> str:
        for form in longest_first:
            if form in text:
                text = text.replace(form, MASK)
        return text

    return redact


@functools.lru_cache(maxsize=64)
def encode_secret(secret: str) -> dict[str, str]:
    """Return the forms of a secret that differ, by name; the secret itself is the first."""
    forms, data = {"plain": secret}, secret.encode("utf-8", "surrogatepass")
    for name, ascii_only in (("json", True), ("json_unicode", False)):
        escaped = forms[name] = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        slashes = forms[f"{name}_slashes"] = escaped.replace("/", "\\/")
        forms |= {f"{name}_twice": json.dumps(escaped)[1:-1], f"{name}_slashes_twice": json.dumps(slashes)[1:-1]}
    quoted = {"percent": quote(data, safe=""), "percent_path": quote(data), "percent_form": quote_plus(data)}
    quoted["percent_all"] = "".join(f"%{byte:02X}" for byte in data)
    for name, form in quoted.items():
        forms |= {name: form, f"{name}_lower": re.sub("%..", lambda found: found[0].lower(), form)}
    for offset in range(3):
        core = _encode_base64(data, offset)
        forms |= {f"base64_{offset}": core, f"base64_url_{offset}": core.replace("+", "-").replace("/", "_")}
    names = {form: name for name, form in reversed(forms.items()) if len(form) >= _MIN_CHARS or form == secret}
    return {name: form for name, form in forms.items() if form and names.get(form) == name}


def _encode_base64(data: bytes, offset: int) -> str:
    """Return the digits that depend on the data alone where `offset` bytes (modulo 3) precede it."""
    digits = base64.b64encode(b"\0" * offset + data).decode("ascii")
    return digits[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]


def sort_secrets(secrets: Iterable[str]) -> list[str]:
    """Return the secrets without empty and equal ones, longest first."""
    return sorted(filter(None, set(secrets)), key=len, reverse=True)


def redact_value(value: object, redact: Redact) -> Any:
    """Return the value without secrets, as the store will hold it; walked through only if it has one, which is slow."""
    with suppress(ValueError, TypeError, RecursionError):  # of what JSON cannot hold
        text = json.dumps(value, default=to_jsonable, ensure_ascii=False).replace('\\"', '"').replace("\\\\", "\\")
        if redact(text) == text:
            return value
    return _each_text(to_jsonable(value), redact)


def _each_text(value: object, change: Redact) -> object:
    """Return a JSON value with its texts changed, apart from keys."""
    if isinstance(value, dict):
        return {key: _each_text(element, change) for key, element in value.items()}
    if isinstance(value, list):
        return [_each_text(element, change) for element in value]
    return change(value) if isinstance(value, str) else value
