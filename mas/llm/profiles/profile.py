"""Common base of the profiles of real models, and the settings that OpenAI's reasoning models accept.

A profile is a dataclass whose fields are the keys of its file in `conf/model/`. Name, temperature and `max_tokens` of
an agent's model come from the first setting that is not null: `system.agents.<agent>.model`, `.temperature` and
`.max_tokens`, then `model.agents.<agent>.name` and so on, then `model.name` and so on. Its server is that of
`model.agents.<agent>.base_url` and `.api_key_env`, or that of the profile. Each server has a rate limiter of its own.
"""

import functools
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from mas.llm import AUTO, OUTPUTS
from mas.llm.adaptive_pace import PaceChange, Traffic
from mas.llm.prices import Price, find_price
from mas.llm.profiles.model import REFLECTION, AgentModel, AgentOverride
from mas.runtime.errors import UserError
from mas.runtime.security.redaction import MIN_SECRET_CHARS

if TYPE_CHECKING:
    import dspy

    from mas.llm.call_policy import CallPolicy
    from mas.llm.dspy_engine import Engine
    from mas.llm.rate_limiter import Limiter, RateLimiter

Server = tuple[str | None, str | None]  # address, and environment variable of its key; None: OpenAI, none

DEFAULT_TEMPERATURE = 0.0
REFLECTION_TEMPERATURE = 1.0  # for varied proposals; also the only one that reasoning models accept
MIN_REASONING_TOKENS = 16_000  # that DSPy demands of `max_tokens`
# DSPy's own rule (`dspy.clients.lm._is_openai_reasoning_model`), repeated so that mistakes are reported before DSPy is
# loaded; a test compares the two.
_REASONING_NAMES = re.compile(
    r"(?:o[1345](?:-(?:mini|nano|pro))?(?:-\d{4}-\d{2}-\d{2})?|gpt-5(?:\.\d+)*(?!-chat)(?:-.*)?)"
)


def is_reasoning_model(name: str) -> bool:
    return _REASONING_NAMES.fullmatch(name.rpartition("/")[2].lower()) is not None


def resolve_temperature(name: str, temperature: float | None) -> float | None:
    """Return the temperature to send to a model; None to send none, as for a reasoning model with the default.

    Raises:
        UserError: the model does not accept the temperature that was chosen.
    """
    if temperature is None or not is_reasoning_model(name):
        return temperature
    if temperature not in (DEFAULT_TEMPERATURE, 1.0):
        raise UserError(
            f"temperature={temperature:g} cannot be sent to {name}: reasoning models take none but 1; leave "
            "model.temperature, or the agent's own, at null or 1."
        )
    return None if temperature == DEFAULT_TEMPERATURE else temperature


def check_max_tokens(name: str, max_tokens: int | None, key: str = "model.max_tokens") -> None:
    """Check that a reasoning model has room for its thoughts; `key`: the option that was given.

    Raises:
        UserError: `max_tokens` is too small.
    """
    if max_tokens is not None and max_tokens < MIN_REASONING_TOKENS and is_reasoning_model(name):
        raise UserError(
            f"{key}={max_tokens} is too small for {name}: a reasoning model's thoughts count as well; give "
            f"at least {MIN_REASONING_TOKENS}, or null."
        )


@dataclass
class RateSettings:
    """Limits of the server per minute; null: unknown, learnt from its refusals."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


@dataclass(frozen=True)
class Endpoint:
    """Address of a server, and the environment variable with the key for it."""

    base_url: str | None  # None: the provider's own
    api_key_env: str | None
    option: str = "model"  # branch of the configuration that names them: `<option>.base_url`

    def read_key(self) -> str | None:
        return os.environ.get(self.api_key_env or "") or None


@dataclass
class ModelProfile(ABC):
    """Fields and checks that do not depend on the kind of server."""

    name: str  # as the server knows it
    base_url: str | None = None  # up to and with /v1; null: the provider's own
    api_key_env: str | None = None  # name of the environment variable that holds the key; null: no key needed
    native_tools: bool | str = True  # function calling over the wire; false: tools are described in the prompt
    output: str = AUTO  # form of a reply: chat | json_schema | auto: by a schema when it is asked for again
    takes_images: bool = False  # attachments go to agents with tools; false: a request with an image is never sent
    takes_audio: bool = False
    context_tokens: int | None = None  # context length: prompt and reply together; null: unknown
    detect_truncation: bool = False  # an error if the server counted implausibly few tokens for the prompt
    temperature: float | None = DEFAULT_TEMPERATURE  # null: not sent; 0 is left out for OpenAI's reasoning models
    max_tokens: int | None = None  # per reply; null: the server's own limit
    call_deadline_seconds: float = 360.0  # sending and receiving, all attempts of a call; waiting is not counted
    attempt_timeout_seconds: float | None = None  # of each attempt but the last; null: learnt from the replies
    num_retries: int = 3  # of a call, after faults; four times as many after refusals (429, 503)
    retry_base_seconds: float = 1.0  # the wait before a retry is random, up to this bound, which doubles each time
    max_connections: int = 1000  # requests in flight; further ones wait
    rate: RateSettings = field(default_factory=RateSettings)
    prices: dict[str, Price] = field(default_factory=dict)  # by name of the model; before those of the list
    price_list: str | None = None  # provider whose list prices hold, as genai-prices names it; null: none
    agents: dict[str, AgentOverride] = field(default_factory=dict)  # by agent
    extra_body: dict[str, Any] = field(default_factory=dict)  # further fields of every request, such as seed or stop
    simulated: ClassVar[bool] = False

    def check(self) -> None:
        if self.output not in OUTPUTS:
            raise UserError(f"model.output={self.output} is not known; choose one of: {', '.join(OUTPUTS)}.")
        self._check_ranges()
        for agent in ("", *self.agents):
            self._resolve_settings(AgentModel(agent=agent))
        for endpoint in self.endpoints:
            if endpoint.api_key_env and not endpoint.read_key():
                named = "" if endpoint.option == "model" else f" ({endpoint.option}.api_key_env)"
                raise UserError(
                    f"model={self.name} needs an API key: set the environment variable {endpoint.api_key_env}{named} "
                    "(or put it into .env), or try the harness without a key: experiment=offline."
                )

    def secrets(self) -> list[str]:
        keys = {endpoint.read_key() or "" for endpoint in self.endpoints}
        return sorted(key for key in keys if len(key) >= MIN_SECRET_CHARS)

    def create_lm(self, agent: AgentModel) -> "dspy.BaseLM":
        from mas.llm.agent_lm import AgentLM

        own, endpoint = self._resolve_settings(agent), self.get_endpoint(agent.agent)
        name = own.name or self.name
        return AgentLM(
            self._dspy_name(name),
            self._create_engine(endpoint),
            native_tools=self.calls_natively(),
            deadline_seconds=self.call_deadline_seconds,
            output=self.output,
            policy=self._create_policy(name, endpoint, self._find_name_option(agent)),
            temperature=own.temperature,
            max_tokens=own.max_tokens,
            cache=False,
        )

    def calls_natively(self) -> bool:
        """Return whether tools are offered over the wire."""
        return bool(self.native_tools)

    def describe_server(self) -> list[str]:
        return []

    def create_reflection_lm(self, name: str | None = None) -> "dspy.BaseLM":
        temperature = None if self.temperature is None else REFLECTION_TEMPERATURE  # null: the server accepts none
        if (entry := self.agents.get(REFLECTION)) is not None and entry.temperature is not None:
            temperature = entry.temperature
        return self.create_lm(AgentModel(name, temperature, REFLECTION))

    def list_unpriced(self, more_names: Collection[str] = ()) -> list[str]:
        """Return the models without a price, of the profile's own and of `more_names`."""
        return sorted(name for name in {*self.names, *more_names} if self.find_price(name) is None)

    def find_price(self, name: str) -> Price | None:
        """Return the price of a model; None if it is unknown."""
        return find_price(name, self.prices, self.price_list)

    def pace_history(self) -> list[PaceChange]:
        """Return the changes of the pace of requests, at all servers."""
        changes = [change for limiter in self._rate_limiters.values() for change in limiter.history]
        return sorted(changes, key=lambda change: change["seconds"])

    def list_traffic(self) -> list[Traffic]:
        return [limiter.traffic for limiter in list(self._rate_limiters.values())]

    def get_rate_limiter(self, server: Server) -> "RateLimiter":
        """Return the rate limiter of a server; the declared rate is that of the profile's own."""
        from mas.llm.rate_limiter import RateLimiter

        if server not in self._rate_limiters:
            rate = self.rate if server == (self.base_url, self.api_key_env) else RateSettings()
            limiter = RateLimiter(self.max_connections, rate.requests_per_minute, rate.tokens_per_minute)
            self._rate_limiters[server] = limiter
        return self._rate_limiters[server]

    def use_rate_limiters(self, get_limiter: "Callable[[Server], Limiter]") -> None:
        """Let models that are made from now on ask other rate limiters than the profile's own."""
        self._get_limiter = get_limiter

    @functools.cached_property
    def _rate_limiters(self) -> "dict[Server, RateLimiter]":
        return {}

    @functools.cached_property
    def _get_limiter(self) -> "Callable[[Server], Limiter]":
        return self.get_rate_limiter

    def get_endpoint(self, agent: str) -> Endpoint:
        """Return the server of an agent."""
        entry = self.agents.get(agent, AgentOverride())
        if entry.base_url:  # never with the profile's key, which is for another server
            return Endpoint(entry.base_url, entry.api_key_env, f"model.agents.{agent}")
        if entry.api_key_env:
            return Endpoint(self.base_url, entry.api_key_env, f"model.agents.{agent}")
        return Endpoint(self.base_url, self.api_key_env)

    @property
    def endpoints(self) -> list[Endpoint]:
        """All servers that the profile names, its own first."""
        return list(dict.fromkeys(self.get_endpoint(agent) for agent in ("", *self.agents)))

    def _create_policy(self, name: str, endpoint: Endpoint, name_option: str) -> "CallPolicy":
        from mas.llm.call_policy import CallPolicy, ModelLimits, OptionNames

        option, variable = endpoint.option, endpoint.api_key_env
        return CallPolicy(
            url=self._get_name(endpoint),
            options=OptionNames(name_option, f"{option}.base_url", f"{option}.api_key_env", variable),
            limits=ModelLimits(name, self.takes_images, self.takes_audio, self.context_tokens, self.detect_truncation),
            price=self.find_price(name),
            rate_limiter=self._get_limiter((endpoint.base_url, endpoint.api_key_env)),
            counts_tokens=self.rate.tokens_per_minute is not None,
            num_retries=self.num_retries,
            retry_base_seconds=self.retry_base_seconds,
            attempt_timeout_seconds=self.attempt_timeout_seconds,
            extra_body=self.extra_body,
        )

    def _get_url(self, endpoint: Endpoint) -> str:
        return endpoint.base_url or type(self).__name__

    def _get_name(self, endpoint: Endpoint) -> str:
        """Return the server's part of the key of stored replies: its address."""
        return self._get_url(endpoint)

    @property
    def names(self) -> list[str]:
        """All models that the profile names."""
        return sorted({self.name, *(entry.name for entry in self.agents.values() if entry.name)})

    @property
    def local_names(self) -> list[str]:
        """All models that the profile names at its own address."""
        others = {entry.name for entry in self.agents.values() if entry.name and not entry.base_url}
        return sorted({self.name, *others})

    def _resolve_settings(self, agent: AgentModel) -> AgentModel:
        """Return the settings of an agent's model; what is None then is not sent."""
        own = agent.merge_override(self.agents)
        name = own.name or self.name
        max_tokens = self.max_tokens if own.max_tokens is None else own.max_tokens
        check_max_tokens(name, max_tokens, self._find_max_tokens_option(agent))
        temperature = self.temperature if own.temperature is None else own.temperature
        return AgentModel(name, resolve_temperature(name, temperature), agent.agent, max_tokens)

    def _find_name_option(self, agent: AgentModel) -> str:
        if agent.name is not None and agent.agent:
            return "reflection_model" if agent.agent == REFLECTION else f"system.agents.{agent.agent}.model"
        entry = self.agents.get(agent.agent, AgentOverride())
        return "model.name" if entry.name is None else f"model.agents.{agent.agent}.name"

    def _find_max_tokens_option(self, agent: AgentModel) -> str:
        if agent.max_tokens is not None:
            return f"system.agents.{agent.agent}.max_tokens"
        entry = self.agents.get(agent.agent, AgentOverride())
        return "model.max_tokens" if entry.max_tokens is None else f"model.agents.{agent.agent}.max_tokens"

    def _check_ranges(self) -> None:
        self._check_native_tools()
        self._require("call_deadline_seconds", self.call_deadline_seconds > 0, "more than 0 seconds")
        timeout = self.attempt_timeout_seconds
        self._require("attempt_timeout_seconds", timeout is None or timeout > 0, "more than 0 seconds, or null")
        self._require("num_retries", self.num_retries >= 0, "0 or more")
        self._require("retry_base_seconds", self.retry_base_seconds >= 0, "0 seconds or more")
        self._require("max_connections", self.max_connections >= 1, "at least 1")
        self._check_rate_and_prices()
        for key, tokens in {"": self.max_tokens, **{k: v.max_tokens for k, v in self.agents.items()}}.items():
            if tokens is not None and tokens < 1:
                name = f"model.agents.{key}.max_tokens" if key else "model.max_tokens"
                raise UserError(f"{name}={tokens} is out of range; expected at least 1, or null.")
        self._require("context_tokens", self.context_tokens is None or self.context_tokens >= 1, "at least 1, or null")
        for key, value in {"": self.temperature, **{k: v.temperature for k, v in self.agents.items()}}.items():
            if value is not None and not 0 <= value <= 2:
                name = f"model.agents.{key}.temperature" if key else "model.temperature"
                raise UserError(f"{name}={value} is out of range; expected 0 to 2, or null.")

    def _check_native_tools(self) -> None:
        self._require("native_tools", isinstance(self.native_tools, bool), "true or false")

    def _check_rate_and_prices(self) -> None:
        numbers = {f"rate.{key}": value for key, value in vars(self.rate).items()}
        if wrong := next((key for key, value in numbers.items() if value is not None and value <= 0), None):
            raise UserError(f"model.{wrong}={numbers[wrong]} is out of range; expected more than 0, or null.")
        for name, price in self.prices.items():
            for key, value in vars(price).items():
                if isinstance(value, int | float) and value < 0:
                    raise UserError(f"model.prices.{name}.{key}={value} is out of range; expected 0 or more.")

    def _require(self, key: str, valid: bool, expected: str) -> None:
        if not valid:
            raise UserError(f"model.{key}={getattr(self, key)} is out of range; expected {expected}.")

    @abstractmethod
    def _dspy_name(self, name: str) -> str:
        """Return DSPy's name of the model: `<provider>/<name>`."""

    @abstractmethod
    def _create_engine(self, endpoint: Endpoint) -> "Engine":
        """Return the engine of a server, the same for equal settings, so that LMs share connections."""
