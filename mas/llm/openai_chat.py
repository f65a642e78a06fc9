"""Models behind an OpenAI-compatible chat endpoint, over DSPy's native engine.

An explicit engine lifts DSPy's silent cap of 100 connections and keeps `OPENAI_BASE_URL` and its like from switching
the client to LiteLLM.

    OpenAIChatModel(name="gpt-4o-mini", api_key_env="OPENAI_API_KEY").lm(AgentModel(temperature=0.7))
"""

import functools
import os
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mas.errors import UserError
from mas.llm.model import AgentModel

OPENAI_URL = "https://api.openai.com/v1"
CONNECT_TIMEOUT_SECONDS = 5.0
MIN_SECRET_CHARS = 8  # a stand-in like "x" is no secret, and taking it out would riddle every text


@dataclass
class OpenAIChatModel:
    """Profile of a model reached over HTTP; its fields are the keys of `conf/model/*.yaml`."""

    name: str  # as the server knows it
    base_url: str | None = None  # null: OpenAI's own
    api_key_env: str | None = None  # name of the environment variable that holds the key; null: no key needed
    native_tools: bool = True  # function calling over the wire; false: tools are described in the prompt
    temperature: float | None = 0.0  # null: not sent
    max_tokens: int | None = None  # per reply; null: the server's own limit
    call_deadline_seconds: float = 180.0  # one call, its retries included
    num_retries: int = 3  # of a call that failed for a passing reason
    max_connections: int = 1000  # at once, to this endpoint
    simulated: bool = False

    def check(self) -> None:
        self._check_ranges()
        if self.api_key_env and not os.environ.get(self.api_key_env):
            raise UserError(
                f"model={self.name} needs an API key: set the environment variable {self.api_key_env} (or put it into "
                ".env), or try the harness without a key: experiment=offline."
            )
        if self.base_url:
            _check_reachable(self.base_url)

    def _check_ranges(self) -> None:
        for name, valid, expected in (
            ("call_deadline_seconds", self.call_deadline_seconds > 0, "more than 0 seconds"),
            ("num_retries", self.num_retries >= 0, "0 or more"),
            ("max_connections", self.max_connections >= 1, "at least 1"),
            ("max_tokens", self.max_tokens is None or self.max_tokens >= 1, "at least 1, or null"),
            ("temperature", self.temperature is None or 0 <= self.temperature <= 2, "0 to 2, or null"),
        ):
            if not valid:
                raise UserError(f"model.{name}={getattr(self, name)} is out of range; expected {expected}.")

    def secrets(self) -> list[str]:
        key = os.environ.get(self.api_key_env or "") or ""
        return [key] if len(key) >= MIN_SECRET_CHARS else []

    def lm(self, agent: AgentModel) -> Any:
        from mas.llm.agent_lm import AgentLM

        engine, async_engine = self._engines()
        return AgentLM(
            f"openai/{agent.name or self.name}",
            engine,
            async_engine,
            native_tools=self.native_tools,
            deadline_seconds=self.call_deadline_seconds,
            num_retries=self.num_retries,
            temperature=self.temperature if agent.temperature is None else agent.temperature,
            max_tokens=self.max_tokens,
            cache=False,
        )

    def _engines(self) -> tuple[Any, Any]:
        key = os.environ.get(self.api_key_env or "") or "none"
        return _shared_engines(self.base_url or OPENAI_URL, key, self.max_connections, self.call_deadline_seconds)


@functools.cache
def _shared_engines(base_url: str, api_key: str, max_connections: int, deadline_seconds: float) -> tuple[Any, Any]:
    from dspy.clients.engines.lm15_engine import AsyncLM15Engine, LM15Engine, timeouts_for
    from dspy.lm15 import RouterConfig

    # Any other provider name here would silently send the requests to api.openai.com.
    config = RouterConfig(
        api_keys={"openai-chat": api_key},
        base_urls={"openai-chat": base_url},
        max_connections=max_connections,
        timeouts=timeouts_for(deadline_seconds),
    )
    return LM15Engine(config), AsyncLM15Engine(config)


def _check_reachable(base_url: str) -> None:
    url = urlsplit(base_url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise UserError(f"model.base_url={base_url} is not a URL; expected something like http://127.0.0.1:8000/v1.")
    try:
        port = url.port or (443 if url.scheme == "https" else 80)
        socket.create_connection((url.hostname, port), timeout=CONNECT_TIMEOUT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"no model server answers at model.base_url={url.scheme}://{url.netloc.rpartition('@')[2]} ({error}); "
            "start it, or correct the address."
        ) from error
