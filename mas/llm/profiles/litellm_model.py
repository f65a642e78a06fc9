"""Models of any provider that LiteLLM knows: `conf/model/litellm.yaml`.

LiteLLM takes seconds to load and about 100 MB of memory, so it is imported with the first request and for this profile
alone. DSPy's engine over it is wrapped like any other.

    LiteLLMModel("anthropic/claude-sonnet-4-5").create_lm(AgentModel())      # with the key in ANTHROPIC_API_KEY
"""

import importlib.util
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mas.llm.prices import Price, find_listed_price, find_price
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.profile import ModelProfile, Server
from mas.runtime.errors import UserError
from mas.runtime.security.redaction import MIN_SECRET_CHARS

if TYPE_CHECKING:
    from mas.llm.dspy_engine import Engine

# Environment variables in which LiteLLM looks for the keys of common providers.
USUAL_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}

PRICE_LISTS = {"gemini": "google", "xai": "x-ai", "bedrock": "aws", "together_ai": "together"}  # in genai-prices


@dataclass
class LiteLLMModel(ModelProfile):
    """Profile whose fields are the keys of `conf/model/litellm.yaml`; `name` is LiteLLM's `<provider>/<model>`."""

    def check(self) -> None:
        for name in self.names:
            provider, _, model = name.partition("/")
            if not (provider and model):
                raise UserError(f"model.name={name} names no provider; LiteLLM's form is anthropic/claude-sonnet-4-5.")
        if self.takes_audio:
            raise UserError("model.takes_audio=true is not possible with LiteLLM yet; set it to false.")
        if not isinstance(self.native_tools, bool):
            raise UserError(f"model.native_tools={self.native_tools} is unknown; expected true or false.")
        if importlib.util.find_spec("litellm") is None:
            raise UserError("model=litellm needs the package litellm; install it with: pip install litellm.")
        super().check()
        self._check_keys()

    def _check_keys(self) -> None:
        """Check the keys of common providers; LiteLLM's own check would take the seconds of its import."""
        for agent in ("", *self.agents):
            server = self.get_server(agent)
            if server.api_key_env or server.base_url:
                continue
            name = self._resolve_settings(AgentModel(agent=agent)).name or self.name
            variables = _list_key_variables(name)
            if name.partition("/")[0] in USUAL_KEYS and not any(os.environ.get(variable) for variable in variables):
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
        from mas.llm.dspy_engine import create_litellm_engine

        return create_litellm_engine(server.read_key(), server.base_url, self.call_deadline_seconds)


def _list_key_variables(name: str) -> tuple[str, ...]:
    provider = name.partition("/")[0]
    return USUAL_KEYS.get(provider, (f"{provider.upper()}_API_KEY",))
