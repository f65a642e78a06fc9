"""Models of any provider that LiteLLM knows; its import takes seconds, and waits for the first request."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mas.llm.prices import Price, find_listed_price, find_price
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel, Server
from mas.runtime.errors import UserError
from mas.runtime.security.redaction import MIN_SECRET_CHARS

if TYPE_CHECKING:
    from mas.llm.engine import Engine

# Providers whose key LiteLLM looks for in <PROVIDER>_API_KEY, or in a second variable.
USUAL_KEYS = dict.fromkeys(("anthropic", "deepseek", "groq", "mistral", "openai", "openrouter", "xai"), "")
USUAL_KEYS |= {"cohere": "CO_API_KEY", "gemini": "GOOGLE_API_KEY"}
PRICE_LISTS = {"gemini": "google", "xai": "x-ai", "bedrock": "aws", "together_ai": "together"}  # in genai-prices


@dataclass
class LiteLLMModel(OpenAIChatModel):
    """Its fields are the keys of `conf/model/litellm.yaml`; `name` is `<provider>/<model>`."""

    usual_url: ClassVar[str | None] = None  # the provider's own

    def check(self) -> None:
        for name in self.names:
            provider, _, model = name.partition("/")
            if not (provider and model):
                raise UserError(f"model.name={name} names no provider; LiteLLM's form is anthropic/claude-sonnet-4-5.")
        if self.takes_audio:
            raise UserError("model.takes_audio=true is not possible with LiteLLM yet; set it to false.")
        if not isinstance(self.native_tools, bool):
            raise UserError(f"model.native_tools={self.native_tools} is unknown; expected true or false.")
        super().check()
        for agent in ("", *self.agents):  # LiteLLM's own check would take the seconds of its import
            server, name = self.get_server(agent), self._resolve_settings(AgentModel(agent=agent)).name or self.name
            variables = _list_key_variables(name)
            has_own = server.api_key_env or server.base_url or name.partition("/")[0] not in USUAL_KEYS
            if not (has_own or any(map(os.environ.get, variables))):
                raise UserError(
                    f"model.name={name} needs the environment variable {' or '.join(variables)}; set it (or put it "
                    "into .env), or name another with model.api_key_env."
                )

    def secrets(self) -> list[str]:
        """Return the keys of all `api_key_env`, and those that LiteLLM finds by itself."""
        keys = {os.environ.get(variable) or "" for name in self.names for variable in _list_key_variables(name)}
        return sorted({*super().secrets(), *(key for key in keys if len(key) >= MIN_SECRET_CHARS)})

    def find_price(self, name: str) -> Price | None:
        provider, _, model = name.partition("/")
        return find_price(name, self.prices) or find_listed_price(model, PRICE_LISTS.get(provider, provider))

    def _dspy_name(self, name: str) -> str:
        return name

    def _create_engine(self, server: Server) -> "Engine":
        from mas.prompt_sets.dspy_internals import AsyncLiteLLMEngine

        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it fetches prices
        options = {"timeout": self.call_deadline_seconds, "api_key": server.read_key(), "api_base": server.base_url}
        engine: Engine = AsyncLiteLLMEngine(**{name: value for name, value in options.items() if value})
        return engine


def _list_key_variables(name: str) -> list[str]:
    provider = name.partition("/")[0]
    return [variable for variable in (f"{provider.upper()}_API_KEY", USUAL_KEYS.get(provider)) if variable]
