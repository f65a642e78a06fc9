"""Request of a client, and how its context is shown to a language model.

    request = AgentRequest.parse({"question": "How many orders?", "prefer_agents": "SQL"})
    request.prefer_agents                          # ("sql",)
    format_context({"current_date": "2026-11-22", "api_bearer_token": "…"})      # "current_date: 2026-11-22"

A context may hold tokens and passwords. They reach the agent that needs them and nothing else: a request that is
printed, stored or traced has `***` in their place, and prompts are made with `format_context`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from mas.runtime.security.redaction import MASK, MIN_SECRET_CHARS
from mas.runtime.untrusted import break_marks, enclose_data

AgentName = Literal["sql", "api_docs", "computation"]
AGENT_NAMES: tuple[AgentName, ...] = get_args(AgentName)

# Keys of a context that the orchestrator writes for the agents.
SYSTEM_PROMPT = "system_prompt"  # the request's own, if it has one
EARLIER_RESULTS = "earlier_results"  # with `share_results`: text about what earlier agents found
_NOT_SHOWN = (SYSTEM_PROMPT, EARLIER_RESULTS)  # predictors have inputs of their own for them
HEADERS = "api_headers"

_SECRET_KEY = re.compile(r"token|passw|secret|api_?key|authorization|cookie|credential|firebase_email", re.IGNORECASE)
_MAX_VALUE_CHARS = 2_000  # of one value of the context in a prompt


class AgentRequest(BaseModel):
    """Question with its context and options. Immutable."""

    model_config = ConfigDict(frozen=True)

    question: str = Field(min_length=1)
    context: dict[str, object] = Field(default_factory=dict)
    prefer_agents: tuple[AgentName, ...] = ()  # these come first, if they are candidates
    disable_agents: tuple[AgentName, ...] = ()
    max_turns: int | None = Field(default=None, ge=1)  # at most so many agents run; the others are skipped
    include_data: bool = True  # False: no tables in the response
    trace: bool = False  # True: the response has the trace events
    system_prompt: str | None = None  # an extra input of every LLM step

    @field_validator("prefer_agents", "disable_agents", mode="before")
    @classmethod
    def _normalise_names(cls, value: object) -> object:
        """Return one name or several as a tuple in lower case; None and entries of None are dropped."""
        if value is None:
            return ()
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple):
            return value
        return tuple(each.strip().lower() if isinstance(each, str) else each for each in value if each is not None)

    @field_serializer("context")
    def _mask_context(self, context: dict[str, object]) -> dict[str, object]:
        return mask_secrets(context)

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        for name, value in super().__repr_args__():
            yield name, mask_secrets(self.context) if name == "context" else value

    @classmethod
    def parse(cls, given: "AgentRequest | Mapping[str, object] | str") -> Self:
        """Return a request made from an object, a mapping or a JSON text.

        Raises:
            ValidationError: a field is missing or wrong.
        """
        if isinstance(given, cls):
            return given
        return cls.model_validate_json(given) if isinstance(given, str) else cls.model_validate(given)


def mask_secrets(context: Mapping[str, object]) -> dict[str, object]:
    """Return a copy of the context with `***` in place of tokens, passwords and the values of headers."""
    return {key: _mask(key, value) for key, value in context.items()}


def _mask(key: str, value: object) -> object:
    if key == HEADERS and isinstance(value, Mapping):
        return {str(name): MASK for name in value}
    if _SECRET_KEY.search(key) and value is not None:
        return MASK
    return mask_secrets(value) if isinstance(value, dict) else value


def list_secrets(context: Mapping[str, object]) -> tuple[str, ...]:
    """Return the texts in the context that no trace, error, answer or log may show."""
    found: set[str] = set()
    for key, value in context.items():
        if key == HEADERS and isinstance(value, Mapping):
            values = [str(each) for each in value.values()]
            found.update(values, *(text.split()[1:] for text in values))  # "Bearer ey…": the token alone as well
        elif _SECRET_KEY.search(key) and value is not None:
            found.add(str(value))
        elif isinstance(value, dict):
            found.update(list_secrets(value))
    return tuple(sorted(text for text in found if len(text) >= MIN_SECRET_CHARS))


def format_context(context: Mapping[str, object]) -> str:
    """Return the context as lines `key: value` for a prompt, without secrets and without what has its own input."""
    shown = {key: value for key, value in mask_secrets(context).items() if key not in _NOT_SHOWN and value != MASK}
    lines = (f"{key}: {_format_value(value)}" for key, value in shown.items())
    return "\n".join(lines)


def _format_value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]} [cut]"


def format_data(name: str, text: str) -> str:
    """Return, for a prompt, a text that `name` has returned: data, not instructions."""
    head, data, tail = enclose_data(name, break_marks(text))
    return f"{head}{data}{tail}"


def get_text(context: Mapping[str, object], key: str) -> str | None:
    """Return a text of the context, such as `SYSTEM_PROMPT`; None if it is missing or empty."""
    value = context.get(key)
    return value if isinstance(value, str) and value.strip() else None
