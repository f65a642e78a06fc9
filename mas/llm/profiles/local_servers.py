"""One question to a model server about itself, before a run: what it has loaded, how long its context is.

ask_server("http://127.0.0.1:11434/api/ps", 5.0)      # {"models": [{"name": "qwen3:latest", …}]}
"""

import json
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.errors import UserError


def query_server(
    url: str, timeout_seconds: float, body: dict[str, Any] | None = None, api_key: str | None = None
) -> dict[str, Any] | None:
    """The JSON object that it answers with; None: it knows no such address or no such model (404).

    Raises:
        UserError: no answer in time, or none that can be read.
    """
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {api_key}"} if api_key else {})}
    request = Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urlopen(request, timeout=timeout_seconds) as response:
            answer = json.load(response)
    except HTTPError as error:
        error.close()
        if error.code == 404:
            return None
        raise UserError(
            f"the model server refused {url} with HTTP {error.code}; see its log for the reason."
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(
            f"the model server gave no usable answer at {url} ({error}); see whether model.base_url is right."
        ) from error
    if not isinstance(answer, dict):
        raise UserError(f"the model server's answer at {url} is no JSON object; see whether model.base_url is right.")
    return answer


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
        listed = (query_server(url, QUICK_SECONDS, api_key=self._key()) or {}).get("data") or []
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
        return query_server(root + path, timeout_seconds, body, self._key())
