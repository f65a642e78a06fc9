"""Models that Ollama serves: `conf/model/ollama.yaml`.

Ollama's `/v1` takes no context length with a request (it ignores `options.num_ctx` there), has a short one by default,
and cuts a longer prompt in silence. So the length is checked at the start through its own API
(https://docs.ollama.com/api): `POST /api/show` what the model is, `POST /api/generate` without a prompt to load it,
`GET /api/ps` with which context it is loaded. Tested against a stand-in that speaks these three, not against Ollama.
"""

from dataclasses import dataclass
from typing import Any

from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.llm.profiles.server_api import ask_server
from mas.runtime.errors import UserError

QUICK_SECONDS = 10.0  # for everything but loading a model, which may take as long as a call


@dataclass
class OllamaModel(OpenAIChatModel):
    """Its fields are the keys of `conf/model/ollama.yaml`."""

    base_url: str | None = "http://127.0.0.1:11434/v1"
    max_tokens_field: str = "max_tokens"
    max_connections: int = 4
    detect_truncation: bool = True

    def check(self) -> None:
        super().check()
        for name in self.names:
            self._check_abilities(name)
            if self.context_tokens is not None:
                self._check_context(name, self.context_tokens)

    def _check_abilities(self, name: str) -> None:
        shown = self._ask("/api/show", {"model": name})
        if shown is None:
            raise UserError(f"Ollama has no model {name}; get it with `ollama pull {name}`, or see `ollama list`.")
        able = shown.get("capabilities")
        for key, ability in (("native_tools", "tools"), ("takes_images", "vision")):
            if able is not None and getattr(self, key) and ability not in able:
                raise UserError(f"Ollama says that {name} cannot do {ability}; set model.{key}=false.")

    def _check_context(self, name: str, needed: int) -> None:
        loaded = self._loaded_context(name)
        if loaded is None:
            raise UserError(
                f"Ollama does not say with how much context it has loaded {name} (it is probably too old to); update "
                "it, or set model.context_tokens=null to go on without knowing."
            )
        if loaded < needed:
            raise UserError(
                f"Ollama loaded {name} with a context of {loaded} tokens, fewer than model.context_tokens={needed}; "
                f"longer prompts would be cut in silence: start it with OLLAMA_CONTEXT_LENGTH={needed}, or lower "
                "model.context_tokens."
            )

    def _loaded_context(self, name: str) -> int | None:
        """Tokens of context with which the model is in memory, where it is put if it is not there yet."""
        if (running := self._running(name)) is None:
            self._ask("/api/generate", {"model": name, "stream": False}, self.call_deadline_seconds)
            running = self._running(name)
        return None if running is None else running.get("context_length")

    def _running(self, name: str) -> dict[str, Any] | None:
        models = (self._ask("/api/ps") or {}).get("models") or []
        return next((each for each in models if each.get("name") in (name, f"{name}:latest")), None)

    def _ask(
        self, path: str, body: dict[str, Any] | None = None, timeout_seconds: float = QUICK_SECONDS
    ) -> dict[str, Any] | None:
        root = (self.base_url or "").rstrip("/").removesuffix("/v1")
        return ask_server(root + path, timeout_seconds, body, self._key())
