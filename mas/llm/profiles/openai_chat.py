"""Models behind an OpenAI-compatible chat endpoint; the base of all profiles of real models.

Name, temperature and `max_tokens` of an agent's model come from the first setting that is not null: that of
`system.agents.<agent>`, of `model.agents.<agent>`, of `model`. Each server has a rate limiter of its own.
"""

import functools
import math
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from mas.llm import AUTO, CallSettings, Traffic, is_reasoning_model, name_max_tokens
from mas.llm.prices import Price, find_price
from mas.llm.profiles.model import REFLECTION, AgentModel, AgentOverride
from mas.llm.profiles.reachable import check_reachable
from mas.llm.rate_limiter import RateLimiter
from mas.runtime.errors import UserError
from mas.runtime.security.redaction import MIN_SECRET_CHARS

if TYPE_CHECKING:
    import dspy

    from mas.llm.engine import Engine

DEFAULT_TEMPERATURE = 0.0
REFLECTION_TEMPERATURE = 1.0  # for varied proposals; also the only one that reasoning models accept
MIN_REASONING_TOKENS = 16_000  # that DSPy demands of `max_tokens`
_ABOVE_0 = (math.ulp(0.0), math.inf, "more than 0")
_FROM_0 = (0, math.inf, "at least 0")
_FROM_1 = (1, math.inf, "at least 1")
RANGES = {  # lowest and highest value
    **dict.fromkeys(("call_deadline_seconds", "attempt_timeout_seconds"), _ABOVE_0),
    **dict.fromkeys(("requests_per_minute", "tokens_per_minute"), _ABOVE_0),
    **dict.fromkeys(("num_retries", "retry_base_seconds"), _FROM_0),
    **dict.fromkeys((f"{kind}_usd_per_million" for kind in ("input", "output", "cached_input")), _FROM_0),
    **dict.fromkeys(("max_connections", "max_tokens", "context_tokens", "slots"), _FROM_1),
    "temperature": (0, 2, "0 to 2"),
}
OPENAI_URL = "https://api.openai.com/v1"
QUICK_SECONDS = 10.0  # for every query but those that the model answers, which may take as long as a call
_PROBE_TOOL = {
    "name": "lookup",
    "description": "Look up a number.",
    "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
PROBE = {
    "messages": [{"role": "user", "content": "How many people live in Oslo? Look it up with the tool."}],
    "tools": [{"type": "function", "function": _PROBE_TOOL}],
}
PROBE_TOKENS = 600  # room for a thinking model's thoughts
MISSING = 404  # HTTP error of an address or a model that the server does not have
NO_TOOLS = (MISSING, 400, 422, 500, 501)  # of servers without function calling, to a request with tools


@dataclass
class RateSettings:
    """Limits of the server per minute; null: unknown, learnt from its refusals."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


@dataclass(frozen=True)
class Server:
    """Address of a server, and the environment variable with the key for it."""

    base_url: str | None  # None: the provider's own
    api_key_env: str | None

    def read_key(self) -> str | None:
        return os.environ.get(self.api_key_env or "") or None


@dataclass
class OpenAIChatModel(CallSettings):
    """Its fields are the keys of `conf/calls/standard.yaml` and `conf/model/openai_compatible.yaml`."""

    name: str  # as the server knows it
    base_url: str | None = None  # up to and with /v1; null: the provider's own
    api_key_env: str | None = None  # environment variable that holds the key; null: no key needed
    native_tools: bool | str = True  # false: tools are described in the prompt; or auto
    temperature: float | None = DEFAULT_TEMPERATURE  # null: not sent, nor 0 to OpenAI's reasoning models
    max_tokens: int | None = None  # per reply; null: the server's own limit
    max_connections: int = 1000  # requests in flight; further ones wait
    rate: RateSettings = field(default_factory=RateSettings)
    prices: dict[str, Price] = field(default_factory=dict)  # by name; before those of the list
    price_list: str | None = None  # provider of list prices, as genai-prices names it; null: none
    agents: dict[str, AgentOverride] = field(default_factory=dict)  # by agent
    simulated: ClassVar[bool] = False
    usual_url: ClassVar[str | None] = OPENAI_URL  # in place of null
    n_sharing: ClassVar[int] = 1  # processes, each with this share of `rate`

    def __post_init__(self) -> None:
        self._rate_limiters: dict[Server, RateLimiter] = {}

    def check(self) -> None:
        if self.native_tools != AUTO and not isinstance(self.native_tools, bool):
            raise UserError(f"model.native_tools={self.native_tools} is unknown; expected true, false or auto.")
        self._check_ranges()
        for agent in ("", *self.agents):
            self._resolve_settings(AgentModel(agent=agent))
        for branch, server in self.list_servers().items():
            if server.api_key_env and not server.read_key():
                named = "" if branch == "model" else f" ({branch}.api_key_env)"
                raise UserError(
                    f"model={self.name} needs an API key: set the environment variable {server.api_key_env}{named} "
                    "(or put it into .env), or try the harness without a key: experiment=offline."
                )
            if server.base_url not in (None, OPENAI_URL):
                check_reachable(server.base_url, f"{branch}.base_url", "model server", "http://127.0.0.1:8000/v1")

    def _check_ranges(self) -> None:
        branches: dict[str, object] = {"model": self, "model.rate": self.rate}
        branches |= {f"model.prices.{name}": price for name, price in self.prices.items()}
        branches |= {f"model.agents.{agent}": entry for agent, entry in self.agents.items()}
        for branch, part in branches.items():
            for key, (lowest, highest, expected) in RANGES.items():
                value = vars(part).get(key)
                if value is not None and not lowest <= value <= highest:
                    raise UserError(f"{branch}.{key}={value} is out of range; expected {expected}.")

    def secrets(self) -> list[str]:
        keys = {server.read_key() or "" for server in self.list_servers().values()}
        return sorted(key for key in keys if len(key) >= MIN_SECRET_CHARS)

    def create_lm(self, agent: AgentModel) -> "dspy.BaseLM":
        from mas.llm.agent_lm import AgentLM
        from mas.llm.engine import CallPolicy

        own, server = self._resolve_settings(agent), self.get_server(agent.agent)
        name = own.name or self.name
        policy = CallPolicy(
            url=self._name_server(server),
            key_variable=server.api_key_env,
            price=self.find_price(name),
            rate_limiter=self.get_rate_limiter(server),
            native_tools=self.calls_natively,
            settings=self,
        )
        sent = {"temperature": own.temperature, "max_tokens": own.max_tokens}
        return AgentLM(self._dspy_name(name), self._create_engine(server), policy, cache=False, **sent)

    def create_reflection_lm(self, name: str | None = None) -> "dspy.BaseLM":
        temperature = None if self.temperature is None else REFLECTION_TEMPERATURE  # null: the server accepts none
        if (entry := self.agents.get(REFLECTION)) is not None and entry.temperature is not None:
            temperature = entry.temperature
        return self.create_lm(AgentModel(name, temperature, REFLECTION))

    @functools.cached_property
    def calls_natively(self) -> bool:
        if self.native_tools != AUTO:
            return bool(self.native_tools)
        return all(map(self._calls_a_tool, self.list_local_names(set(self.agents) - {REFLECTION})))

    def describe_server(self) -> list[str]:
        if self.native_tools != AUTO:
            return []
        form = "over the wire" if self.calls_natively else "as text; the model or its server does not call natively"
        return [f"tools: {form}"]

    def list_unpriced(self, more_names: Collection[str] = ()) -> list[str]:
        return sorted(name for name in {*self.names, *more_names} if self.find_price(name) is None)

    def find_price(self, name: str) -> Price | None:
        return find_price(name, self.prices, self.price_list)

    def list_traffic(self) -> list[Traffic]:
        return [limiter.traffic for limiter in list(self._rate_limiters.values())]

    def get_rate_limiter(self, server: Server) -> RateLimiter:
        """Return the rate limiter of a server; the declared rate is that of the profile's own."""
        if server not in self._rate_limiters:
            rate = self.rate if server == self.get_server("") else RateSettings()
            limits = (self.max_connections, rate.requests_per_minute, rate.tokens_per_minute)
            self._rate_limiters[server] = RateLimiter(*limits, self.n_sharing)
        return self._rate_limiters[server]

    def get_server(self, agent: str) -> Server:
        """Return the server of an agent; that of the profile for an agent without its own."""
        entry = self.agents.get(agent, AgentOverride())
        if entry.base_url:  # never with the profile's key, which is for another server
            return Server(entry.base_url, entry.api_key_env)
        return Server(self.base_url or self.usual_url, entry.api_key_env or self.api_key_env)

    def list_servers(self) -> dict[str, Server]:
        """Return all servers, the profile's own first, by the branch of the configuration."""
        return {"model": self.get_server(""), **{f"model.agents.{each}": self.get_server(each) for each in self.agents}}

    @property
    def names(self) -> list[str]:
        return sorted({self.name, *(entry.name for entry in self.agents.values() if entry.name)})

    def list_local_names(self, agents: Collection[str]) -> list[str]:
        """Return the models at the profile's own address: its own, and those of some agents."""
        entries = [self.agents[agent] for agent in agents]
        return sorted({self.name, *(entry.name for entry in entries if entry.name and not entry.base_url)})

    def _resolve_settings(self, agent: AgentModel) -> AgentModel:
        """Return the settings of an agent's model; what is None then is not sent."""
        parts = (agent, self.agents.get(agent.agent, AgentOverride()), self)
        name = next(part.name for part in parts if part.name is not None)
        temperature = next((part.temperature for part in parts if part.temperature is not None), None)
        max_tokens = next((part.max_tokens for part in parts if part.max_tokens is not None), None)
        if is_reasoning_model(name):
            if temperature not in (None, DEFAULT_TEMPERATURE, 1.0) or (max_tokens or math.inf) < MIN_REASONING_TOKENS:
                raise UserError(
                    f"temperature={temperature} and max_tokens={max_tokens} of {agent.agent or 'the model'} cannot be "
                    f"sent to {name}: reasoning models take no temperature but 1, and their thoughts count as tokens; "
                    f"set temperature to null or 1, and max_tokens to null or at least {MIN_REASONING_TOKENS}."
                )
            temperature = temperature or None
        return AgentModel(name, temperature, agent.agent, max_tokens)

    def _calls_a_tool(self, name: str) -> bool:
        body = {"model": name, **PROBE, name_max_tokens(self.get_server("").base_url or "", name): PROBE_TOKENS}
        if (temperature := self._resolve_settings(AgentModel(name)).temperature) is not None:
            body["temperature"] = temperature
        reply = self.query("/v1/chat/completions", body | self.extra_body, self.call_deadline_seconds, NO_TOOLS)
        choices = list_objects(reply, "choices")
        message = choices[0].get("message") if choices else None
        return isinstance(message, dict) and bool(message.get("tool_calls"))

    def query(
        self,
        path: str,
        body: dict[str, object] | None = None,
        timeout_seconds: float = QUICK_SECONDS,
        negative: Collection[int] = (MISSING,),
    ) -> dict[str, object] | None:
        """Return the JSON object at a path of the server, asked with its key; None for an HTTP error in `negative`.

        `/v1` in the path is the base URL. No redirect is followed: the key is for this server alone. UserError: another
        error, or no usable answer in time.
        """
        import httpx

        server = self.get_server("")
        base, key = (server.base_url or "").rstrip("/"), server.read_key()
        url = base + path.removeprefix("/v1") if path.startswith("/v1/") else base.removesuffix("/v1") + path
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        method = "GET" if body is None else "POST"
        try:
            response = httpx.request(method, url, json=body, headers=headers, timeout=timeout_seconds)
            if response.status_code in negative:
                return None
            if not response.is_success:
                is_loading = response.status_code == httpx.codes.SERVICE_UNAVAILABLE
                advice = "it may still be loading its model; try again soon" if is_loading else "its log says why"
                raise UserError(f"the model server refused {url} with HTTP {response.status_code}; {advice}.")
            answer = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise UserError(
                f"the model server gave no usable answer at {url} ({error}); see whether model.base_url is right."
            ) from error
        return answer if isinstance(answer, dict) else {}

    def _name_server(self, server: Server) -> str:
        return server.base_url or type(self).__name__

    def _dspy_name(self, name: str) -> str:
        return f"openai/{name}"

    def _create_engine(self, server: Server) -> "Engine":
        from mas.llm.openai_engine import create_chat_engine

        return create_chat_engine(server.base_url or "", server.read_key())


def list_objects(answer: dict[str, object] | None, key: str) -> list[dict[str, object]]:
    """Return the objects in a list of a server's answer."""
    items = (answer or {}).get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
