"""Everything in `mas/llm` that uses internals of DSPy: the wire types of its vendored `lm15`, its engine over LiteLLM.

No other module of `mas/llm` imports `dspy._vendor` or `dspy.clients`. The versions that this was written for are
checked on import (`mas/prompt_sets/dspy_internals.py`).

    engine = create_litellm_engine(None, None, 360.0)      # for "anthropic/claude-sonnet-4-5"
"""

import functools
import os
from typing import Protocol

import dspy
from dspy._vendor.lm15.providers.base import HttpResponse as HttpResponse  # re-exported, as what follows
from dspy._vendor.lm15.serde import message_to_dict as message_to_dict
from dspy._vendor.lm15.serde import request_to_dict as request_to_dict
from dspy._vendor.lm15.serde import response_from_dict as response_from_dict
from dspy._vendor.lm15.serde import response_to_dict as response_to_dict
from dspy._vendor.lm15.types import Part as Part
from dspy.clients.engines import AsyncLiteLLMEngine
from dspy.lm15 import Request, Response, TransportError

from mas.prompt_sets.dspy_internals import check_dspy_version

check_dspy_version(dspy.__version__)


class NeverSentError(TransportError):
    """There was no connection, so nothing was sent."""


class Engine(Protocol):
    """Sends one request, without retries. The part of DSPy's contract of an asynchronous engine that our LMs use."""

    async def complete(self, request: Request) -> Response: ...


@functools.cache
def create_litellm_engine(api_key: str | None, base_url: str | None, deadline_seconds: float) -> Engine:
    """Return an engine over LiteLLM, which is imported with the first request; equal arguments give the same one."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import fetches a list of prices
    options = {"timeout": deadline_seconds, "api_key": api_key, "api_base": base_url}
    engine: Engine = AsyncLiteLLMEngine(**{name: value for name, value in options.items() if value})
    return engine
