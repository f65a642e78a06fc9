"""Models that vLLM serves: `conf/model/vllm.yaml`.

vLLM refuses a prompt that is too long, with an error of its own. `GET /v1/models` says with how long a context it was
started (`max_model_len`). Tested against a stand-in that answers so, not against vLLM.
"""

from dataclasses import dataclass

from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.llm.profiles.server_api import ask_server
from mas.runtime.errors import UserError

QUICK_SECONDS = 10.0


@dataclass
class VllmModel(OpenAIChatModel):
    """Its fields are the keys of `conf/model/vllm.yaml`."""

    base_url: str | None = "http://127.0.0.1:8000/v1"
    max_tokens_field: str = "max_tokens"
    max_connections: int = 4
    detect_truncation: bool = True

    def check(self) -> None:
        super().check()
        url = f"{(self.base_url or '').rstrip('/')}/models"
        listed = (ask_server(url, QUICK_SECONDS, api_key=self._key()) or {}).get("data") or []
        served = {model.get("id"): model.get("max_model_len") for model in listed}
        for name in self.names:
            if name not in served:
                there = ", ".join(map(str, served)) or "none"
                raise UserError(f"vLLM serves no model {name}; model.name must be one of: {there}.")
            self._check_context(name, served[name])

    def _check_context(self, name: str, length: int | None) -> None:
        if self.context_tokens is not None and length is not None and length < self.context_tokens:
            raise UserError(
                f"vLLM was started with a context of {length} tokens for {name}, fewer than "
                f"model.context_tokens={self.context_tokens}; start it with --max-model-len {self.context_tokens}, or "
                "lower model.context_tokens."
            )
