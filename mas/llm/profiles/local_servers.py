"""Models that llama.cpp, vLLM, SGLang, LM Studio and Ollama serve on one's own machines: `conf/model/`.

Before a run, the server is asked which models it has, and how long their context is. Tried on llama.cpp's own server
(build 11549); the others are tested against stand-ins that answer as documented.
"""

from dataclasses import dataclass
from typing import ClassVar

from mas.llm.profiles.openai_chat import AUTO, OpenAIChatModel, list_objects
from mas.runtime.errors import UserError


@dataclass
class LocalModel(OpenAIChatModel):
    """Profile of a server on one's own machine, which is asked about itself before a run."""

    native_tools: bool | str = AUTO
    max_tokens_field: str = "max_tokens"
    max_connections: int = 4
    detect_truncation: bool = True

    def describe_server(self) -> list[str]:
        at_once = f"up to {self.max_connections} requests and questions at once (model.max_connections)"
        return ["; ".join([at_once, *super().describe_server()])]

    def _check_context(self, server: str, name: str, length: object, setting: str) -> None:
        """Check that a model's context is as long as the profile says; a length that is no number is unknown.

        Raises:
            UserError: the context is shorter; the message has the `setting` for a longer one.
        """
        if self.context_tokens is not None and isinstance(length, int) and length < self.context_tokens:
            raise UserError(
                f"{server} has a context of {length} tokens for {name}, fewer than model.context_tokens="
                f"{self.context_tokens}; start it with {setting}, or lower model.context_tokens."
            )


@dataclass
class VllmModel(LocalModel):
    """Profile whose fields are the keys of `conf/model/vllm.yaml`.

    vLLM refuses a prompt that is too long with an error of its own. `GET /v1/models` returns the context length with
    which it was started (`max_model_len`).
    """

    server: ClassVar[str] = "vLLM"
    context_option: ClassVar[str] = "--max-model-len"
    base_url: str | None = "http://127.0.0.1:8000/v1"

    def check(self) -> None:
        super().check()
        served = {model.get("id"): model.get("max_model_len") for model in self._list_models()}
        for name in self.local_names:
            if name not in served:
                there = ", ".join(map(str, served)) or "none"
                raise UserError(f"{self.server} serves no model {name}; model.name must be one of: {there}.")
            self._check_context(self.server, name, served[name], f"{self.context_option} {self.context_tokens}")

    def _list_models(self) -> list[dict[str, object]]:
        return list_objects(self.query("/v1/models"), "data")


@dataclass
class SglangModel(VllmModel):
    """Profile whose fields are the keys of `conf/model/sglang.yaml`; SGLang describes its models as vLLM does."""

    server: ClassVar[str] = "SGLang"
    context_option: ClassVar[str] = "--context-length"
    base_url: str | None = "http://127.0.0.1:30000/v1"


@dataclass
class LmStudioModel(VllmModel):
    """Profile whose fields are the keys of `conf/model/lmstudio.yaml`.

    `GET /api/v0/models` (https://lmstudio.ai/docs/developer/rest) returns the context with which a model is loaded
    (`loaded_context_length`); a model that is not loaded yet has none.
    """

    server: ClassVar[str] = "LM Studio"
    context_option: ClassVar[str] = "lms load --context-length"
    base_url: str | None = "http://127.0.0.1:1234/v1"

    def _list_models(self) -> list[dict[str, object]]:
        models = list_objects(self.query("/api/v0/models"), "data")
        return [{**model, "max_model_len": model.get("loaded_context_length")} for model in models]


@dataclass
class OllamaModel(LocalModel):
    """Profile whose fields are the keys of `conf/model/ollama.yaml`.

    Ollama's `/v1` ignores a context length in a request (`options.num_ctx`), has a short one by default, and truncates
    longer prompts silently. So the length is checked before a run through its own API (https://docs.ollama.com/api):
    `POST /api/show` describes the model, `POST /api/generate` without a prompt loads it, `GET /api/ps` returns the
    context with which it is loaded.
    """

    base_url: str | None = "http://127.0.0.1:11434/v1"

    def check(self) -> None:
        super().check()
        for name in self.local_names:
            self._check_capabilities(name)
            if self.context_tokens is not None:
                setting = f"OLLAMA_CONTEXT_LENGTH={self.context_tokens}"
                self._check_context("Ollama", name, self._load_context(name), setting)

    def _check_capabilities(self, name: str) -> None:
        model = self.query("/api/show", {"model": name})
        if model is None:
            raise UserError(f"Ollama has no model {name}; get it with `ollama pull {name}`, or see `ollama list`.")
        capabilities = model.get("capabilities")
        for key, capability in (("native_tools", "tools"), ("takes_images", "vision")):
            if isinstance(capabilities, list) and getattr(self, key) is True and capability not in capabilities:
                raise UserError(f"Ollama says that {name} cannot do {capability}; set model.{key}=false.")

    def _load_context(self, name: str) -> object:
        """Return the context length of the loaded model, after loading it if necessary; None if it is unknown."""
        for _ in range(2):
            for running in list_objects(self.query("/api/ps"), "models"):
                if running.get("name") in (name, f"{name}:latest"):
                    return running.get("context_length")
            self.query("/api/generate", {"model": name, "stream": False}, self.call_deadline_seconds)
        return None


@dataclass
class LlamaCppModel(LocalModel):
    """Profile whose fields are the keys of `conf/model/llamacpp.yaml`.

    `GET /props` says how many requests the server answers at once (`total_slots`), `GET /v1/models` how long the
    context of each is (`meta.n_ctx`). More requests would wait in the server, and their time would run out.
    """

    base_url: str | None = "http://127.0.0.1:8080/v1"
    max_tokens: int | None = 2048
    max_connections: int = 64

    def check(self) -> None:
        super().check()
        slots = (self.query("/props") or {}).get("total_slots")
        if not isinstance(slots, int):
            raise UserError(
                f"the server at {self.base_url} does not say in /props how many requests it answers at once, as "
                "llama.cpp's does; for another server use model=openai_compatible."
            )
        self.max_connections = min(self.max_connections, slots)
        served = list_objects(self.query("/v1/models"), "data")
        meta = served[0].get("meta") if served else None
        length = meta.get("n_ctx") if isinstance(meta, dict) else None
        setting = f"--ctx-size {(self.context_tokens or 0) * slots}"
        self._check_context("llama.cpp", f"each of its {slots} slots", length, setting)
        self.context_tokens = length if isinstance(length, int) else self.context_tokens
