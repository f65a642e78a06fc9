"""Removal of secrets from texts and values, also in the encodings in which others repeat them."""

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
    forms = {form for secret in secrets for form in _encode(secret)}
    longest_first = sorted(forms, key=len, reverse=True)  # one may contain another

    def redact(text: str) -> str:
        for form in longest_first:
            if form in text:
                text = text.replace(form, MASK)
        return text

    return redact


def _encode(secret: str) -> set[str]:
    """Return the secret and its forms in JSON, in addresses and in base64."""
    data, forms = secret.encode("utf-8", "surrogatepass"), {secret}
    for ascii_only in (True, False):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        for form in (escaped, escaped.replace("/", "\\/")):
            forms |= {form, json.dumps(form)[1:-1]}
    all_bytes = "".join(f"%{byte:02X}" for byte in data)
    for form in (quote(data, safe=""), quote(data), quote_plus(data), all_bytes):
        forms |= {form, re.sub("%..", lambda found: found[0].lower(), form)}
    for offset in range(3):
        core = _encode_base64(data, offset)
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= _MIN_CHARS or form == secret} - {""}


def _encode_base64(data: bytes, offset: int) -> str:
    """Return the digits that depend on the data alone where `offset` bytes (modulo 3) precede it."""
    digits = base64.b64encode(b"\0" * offset + data).decode("ascii")
    return digits[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]


def sort_secrets(secrets: Iterable[str]) -> list[str]:
    """Return the secrets without empty and equal ones, longest first."""
    return sorted(filter(None, set(secrets)), key=len, reverse=True)


def redact_value(value: object, redact: Redact) -> Any:
    """Return the value without secrets; one that has any is converted as for the store."""
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
