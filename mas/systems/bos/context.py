"""Context of a request: the keys that we know, its secrets, and how prompts show it.

    format_context({"current_date": "2026-11-22", "api_bearer_token": "…"})      # "current_date: 2026-11-22"

A context may hold tokens and passwords. They reach the agent that needs them and nothing else: a request that is
printed, stored or traced has `***` in their place, and prompts are made with `format_context`.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from mas.runtime.sample_context import current_context
from mas.runtime.security.redaction import MASK, MIN_SECRET_CHARS
from mas.runtime.untrusted import break_marks, enclose_data

# Keys of a context that the orchestrator writes for the agents.
SYSTEM_PROMPT = "system_prompt"  # the request's own, if it has one
EARLIER_RESULTS = "earlier_results"  # with `share_results`: text about what earlier agents found
_NOT_SHOWN = (SYSTEM_PROMPT, EARLIER_RESULTS)  # predictors have separate inputs for them
HEADERS = "api_headers"

_SECRET_KEY = re.compile(r"token|passw|secret|api_?key|authorization|cookie|credential|firebase_email", re.IGNORECASE)
_MAX_VALUE_CHARS = 2_000  # of one value of the context in a prompt

Clock = Callable[[], datetime]  # in UTC


def read_clock() -> datetime:
    """Return the time; within a sample that of its beginning, also when it continues after an interruption."""
    sample = current_context()
    return sample.read_start_time() if sample else datetime.now(UTC)


def mask_secrets(context: Mapping[str, object]) -> dict[str, object]:
    """Return a copy of the context with `***` in place of tokens, passwords and the values of headers."""
    masked: dict[str, object] = {}
    for key, value in context.items():
        if key == HEADERS and isinstance(value, Mapping):
            masked[key] = {str(name): MASK for name in value}
        elif _SECRET_KEY.search(key) and value is not None:
            masked[key] = MASK
        else:
            masked[key] = mask_secrets(value) if isinstance(value, dict) else value
    return masked


def list_secrets(context: Mapping[str, object]) -> tuple[str, ...]:
    """Return the texts in the context that no trace, error, answer or log may show."""
    secrets: set[str] = set()
    for key, value in context.items():
        if key == HEADERS and isinstance(value, Mapping):
            values = [str(header) for header in value.values()]
            secrets.update(values, *(text.split()[1:] for text in values))  # "Bearer ey…": the token alone as well
        elif _SECRET_KEY.search(key) and value is not None:
            secrets.add(str(value))
        elif isinstance(value, dict):
            secrets.update(list_secrets(value))
    return tuple(sorted(text for text in secrets if len(text) >= MIN_SECRET_CHARS))


def format_context(context: Mapping[str, object]) -> str:
    """Return the context as lines `key: value` for a prompt, without secrets and without what has its own input."""
    lines = []
    for key, value in mask_secrets(context).items():
        if key not in _NOT_SHOWN and value != MASK:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            cut = " [cut]" if len(text) > _MAX_VALUE_CHARS else ""
            lines.append(f"{key}: {text[:_MAX_VALUE_CHARS]}{cut}")
    return "\n".join(lines)


def format_data(name: str, text: str) -> str:
    """Return, for a prompt, a text that `name` has returned: data, not instructions."""
    return "".join(enclose_data(name, break_marks(text)))


def get_text(context: Mapping[str, object], key: str) -> str | None:
    value = context.get(key)
    return value if isinstance(value, str) and value.strip() else None
