"""OpenAI's reasoning models: which names they have, and what they refuse.

They take no temperature but 1, their default, and DSPy insists on room to think: `max_tokens` of at least 16,000.
The rule for the names is DSPy's own (`dspy.clients.lm._is_openai_reasoning_model`), repeated here because a mistake is
told before DSPy is loaded; a test compares the two.

    accepted_temperature("o3", 0.0)      # None: the profiles' default is left out
"""

import functools
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mas.llm.prices import Price, find_price
from mas.llm.profiles.model import AgentModel, AgentOverride
from mas.runtime.errors import UserError

DEFAULT_TEMPERATURE = 0.0  # what a profile has unless somebody chose another
MIN_REASONING_TOKENS = 16_000
_NAMES = re.compile(r"(?:o[1345](?:-(?:mini|nano|pro))?(?:-\d{4}-\d{2}-\d{2})?|gpt-5(?:\.\d+)*(?!-chat)(?:-.*)?)")


def is_reasoning_model(name: str) -> bool:
    return _NAMES.fullmatch(name.rpartition("/")[2].lower()) is not None


def resolve_temperature(name: str, temperature: float | None) -> float | None:
    """The temperature to send to this model; None: none at all.

    Raises:
        UserError: somebody chose one that the model refuses.
    """
    if temperature is None or not is_reasoning_model(name):
        return temperature
    if temperature not in (DEFAULT_TEMPERATURE, 1.0):
        raise UserError(
            f"temperature={temperature:g} cannot be sent to {name}: reasoning models take none but 1; leave "
            "model.temperature, or the agent's own, at null or 1."
        )
    return None if temperature == DEFAULT_TEMPERATURE else temperature


def check_max_tokens(name: str, max_tokens: int | None) -> None:
    """See that a reasoning model may write as much as it needs.

    Raises:
        UserError: it may not.
    """
    if max_tokens is not None and max_tokens < MIN_REASONING_TOKENS and is_reasoning_model(name):
        raise UserError(
            f"model.max_tokens={max_tokens} is too small for {name}: a reasoning model's thoughts count as well; give "
            f"at least {MIN_REASONING_TOKENS}, or null."
        )


REFLECTION_TEMPERATURE = 1.0  # every proposal another one; the one that reasoning models take
MIN_SECRET_CHARS = 8  # a stand-in like "x" is no secret, and taking it out would riddle every text


@dataclass
class RateSettings:
    """What the server allows in a minute; null: unknown, and then found out by the server's own refusals."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


@dataclass
class ModelProfile(ABC):
    """Fields and checks that do not depend on how the model is reached."""

    name: str  # as the server knows it
    base_url: str | None = None  # up to and with /v1; null: the provider's own
    api_key_env: str | None = None  # name of the environment variable that holds the key; null: no key needed
    native_tools: bool = True  # function calling over the wire; false: tools are described in the prompt
    takes_images: bool = False  # attached ones go to agents with tools; false: a request with one is never sent
    takes_audio: bool = False
    context_tokens: int | None = None  # that the model can take, prompt and reply together; null: unknown
    detect_truncation: bool = False  # an error if the server counted implausibly few tokens for the prompt
    temperature: float | None = DEFAULT_TEMPERATURE  # null: not sent; 0 is left out for OpenAI's reasoning models
    max_tokens: int | None = None  # per reply; null: the server's own limit
    call_deadline_seconds: float = 180.0  # sending and receiving, all tries of a call; waiting is not counted
    num_retries: int = 3  # of a call that failed for a passing reason
    retry_base_seconds: float = 1.0  # the wait before them is random, up to this, then up to twice this, and so on
    max_connections: int = 1000  # requests at once; further ones wait
    rate: RateSettings = field(default_factory=RateSettings)
    prices: dict[str, Price] = field(default_factory=dict)  # name of a model → what its tokens cost
    agents: dict[str, AgentOverride] = field(default_factory=dict)  # agent → its own name and temperature
    simulated: ClassVar[bool] = False

    def check(self) -> None:
        self._check_ranges()
        for agent in ("", *self.agents):
            self._sampling(AgentModel(agent=agent))
        if self.api_key_env and not self._key():
            raise UserError(
                f"model={self.name} needs an API key: set the environment variable {self.api_key_env} (or put it into "
                ".env), or try the harness without a key: experiment=offline."
            )

    def secrets(self) -> list[str]:
        key = self._key() or ""
        return [key] if len(key) >= MIN_SECRET_CHARS else []

    def create_lm(self, agent: AgentModel) -> Any:
        from mas.llm.agent_lm import AgentLM

        name, temperature = self._sampling(agent)
        engine, async_engine = self._engines()
        return AgentLM(
            self._dspy_name(name),
            engine,
            async_engine,
            native_tools=self.native_tools,
            deadline_seconds=self.call_deadline_seconds,
            policy=self._terms(name),
            temperature=temperature,
            max_tokens=self.max_tokens,
            cache=False,
        )

    def create_reflection_lm(self, name: str | None = None) -> Any:
        temperature = None if self.temperature is None else REFLECTION_TEMPERATURE  # null: the server takes none
        return self.create_lm(AgentModel(name, temperature, "reflection"))

    def list_unpriced(self, more_names: Collection[str] = ()) -> list[str]:
        """Models without a price, of those that the profile names and of these: what they cost is unknown."""
        return sorted(name for name in {*self.names, *more_names} if find_price(name, self.prices) is None)

    def concurrency_history(self) -> list[dict[str, Any]]:
        """How many requests were let through at once, change by change, since the first one."""
        history: list[dict[str, Any]] = self._gate.history
        return history

    @functools.cached_property
    def _gate(self) -> Any:
        from mas.llm.rate_limiter import RateLimiter

        return RateLimiter(self.max_connections, self.rate.requests_per_minute, self.rate.tokens_per_minute)

    def _terms(self, name: str) -> Any:
        from mas.llm.call_policy import CallPolicy, ModelLimits

        return CallPolicy(
            url=self._url,
            limits=ModelLimits(name, self.takes_images, self.takes_audio, self.context_tokens, self.detect_truncation),
            price=find_price(name, self.prices),
            rate_limiter=self._gate,
            counts_tokens=self.rate.tokens_per_minute is not None,
            num_retries=self.num_retries,
            retry_base_seconds=self.retry_base_seconds,
        )

    @property
    def _url(self) -> str:
        """Of the endpoint, as kept replies are told apart by it."""
        return self.base_url or type(self).__name__

    def _key(self) -> str | None:
        return os.environ.get(self.api_key_env or "") or None

    @property
    def names(self) -> list[str]:
        """Every model that the profile itself names."""
        return sorted({self.name, *(entry.name for entry in self.agents.values() if entry.name)})

    def _sampling(self, agent: AgentModel) -> tuple[str, float | None]:
        """Name and temperature for this agent."""
        own = agent.merge_override(self.agents)
        name = own.name or self.name
        check_max_tokens(name, self.max_tokens)
        return name, resolve_temperature(name, self.temperature if own.temperature is None else own.temperature)

    def _check_ranges(self) -> None:
        self._need("call_deadline_seconds", self.call_deadline_seconds > 0, "more than 0 seconds")
        self._need("num_retries", self.num_retries >= 0, "0 or more")
        self._need("retry_base_seconds", self.retry_base_seconds >= 0, "0 seconds or more")
        self._need("max_connections", self.max_connections >= 1, "at least 1")
        self._check_rate_and_prices()
        self._need("max_tokens", self.max_tokens is None or self.max_tokens >= 1, "at least 1, or null")
        self._need("context_tokens", self.context_tokens is None or self.context_tokens >= 1, "at least 1, or null")
        for key, value in {"": self.temperature, **{k: v.temperature for k, v in self.agents.items()}}.items():
            if value is not None and not 0 <= value <= 2:
                name = f"model.agents.{key}.temperature" if key else "model.temperature"
                raise UserError(f"{name}={value} is out of range; expected 0 to 2, or null.")

    def _check_rate_and_prices(self) -> None:
        numbers = {f"rate.{key}": value for key, value in vars(self.rate).items()}
        if wrong := next((key for key, value in numbers.items() if value is not None and value <= 0), None):
            raise UserError(f"model.{wrong}={numbers[wrong]} is out of range; expected more than 0, or null.")
        for name, price in self.prices.items():
            for key, value in vars(price).items():
                if isinstance(value, int | float) and value < 0:
                    raise UserError(f"model.prices.{name}.{key}={value} is out of range; expected 0 or more.")

    def _need(self, key: str, valid: bool, expected: str) -> None:
        if not valid:
            raise UserError(f"model.{key}={getattr(self, key)} is out of range; expected {expected}.")

    @abstractmethod
    def _dspy_name(self, name: str) -> str:
        """How DSPy calls the model: `<provider>/<name>`."""

    @abstractmethod
    def _engines(self) -> tuple[Any, Any]:
        """DSPy engines, synchronous and asynchronous; the same for equal settings, so that LMs share connections."""
