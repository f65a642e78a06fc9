"""Models behind an OpenAI-compatible chat endpoint, over OpenAI's own client.

OpenAIChatModel(name="gpt-4o-mini", api_key_env="OPENAI_API_KEY").create_lm(AgentModel(temperature=0.7))
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mas.llm.profiles.profile import Endpoint, ModelProfile
from mas.llm.profiles.reachable import check_reachable

if TYPE_CHECKING:
    from mas.llm.dspy_engine import Engine

OPENAI_URL = "https://api.openai.com/v1"
MAX_TOKENS_FIELDS = ("max_completion_tokens", "max_tokens")


@dataclass
class OpenAIChatModel(ModelProfile):
    """Profile of a model reached over HTTP; its fields are the keys of `conf/model/*.yaml`."""

    max_tokens_field: str = "max_completion_tokens"  # name of `max_tokens` in requests; older servers know only that

    def check(self) -> None:
        super().check()
        for endpoint in self.endpoints:
            if endpoint.base_url:
                key = f"{endpoint.option}.base_url"
                check_reachable(endpoint.base_url, key, "model server", "http://127.0.0.1:8000/v1")

    def _check_ranges(self) -> None:
        super()._check_ranges()
        self._require("max_tokens_field", self.max_tokens_field in MAX_TOKENS_FIELDS, " or ".join(MAX_TOKENS_FIELDS))

    def _dspy_name(self, name: str) -> str:
        return f"openai/{name}"

    def _create_engine(self, endpoint: Endpoint) -> "Engine":
        from mas.llm.openai_engine import create_chat_engine

        url, key = self._get_url(endpoint), endpoint.read_key()
        return create_chat_engine(url, key, self.max_connections, self.call_deadline_seconds, self.max_tokens_field)

    def _get_url(self, endpoint: Endpoint) -> str:
        return endpoint.base_url or OPENAI_URL
