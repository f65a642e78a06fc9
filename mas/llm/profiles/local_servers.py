"""Models of vLLM, SGLang, LM Studio, Ollama and llama.cpp, which are asked for their context before a run."""

from dataclasses import dataclass
from typing import ClassVar

from mas.llm import AUTO
from mas.llm.profiles.openai_chat import OpenAIChatModel, list_objects
from mas.runtime.errors import UserError


@dataclass
class VllmModel(OpenAIChatModel):
    """Its fields are the keys of `conf/model/vllm.yaml`; SGLang and LM Studio answer as vLLM does."""

    server: ClassVar[str] = "the model server"
    usual_url: ClassVar[str | None] = "http://127.0.0.1:8000/v1"
    context_setting: ClassVar[str] = "--max-model-len {0} (SGLang: --context-length {0})"  # for all slots
    native_tools: bool | str = AUTO
    max_connections: int = 4
    _slots = 1

    def check(self) -> None:
        super().check()
        for name in self.list_local_names(self.agents):
            length, wanted = self._find_context(name), self.context_tokens
            if wanted is not None and isinstance(length, int) and length < wanted:
                setting = self.context_setting.format(wanted * self._slots)
                raise UserError(
                    f"{self.server} has a context of {length} tokens for {name}, fewer than model.context_tokens="
                    f"{wanted}; start it with {setting}, or lower model.context_tokens."
                )

    def _find_context(self, name: str) -> object:
        """Check that the server has a model, and return its context length; no number: unknown."""
        models = list_objects(self.query("/v1/models"), "data")
        served = {model.get("id"): model.get("max_model_len") for model in models}
        if name not in served:
            there = ", ".join(map(str, served)) or "none"
            raise UserError(f"{self.server} serves no model {name}; model.name must be one of: {there}.")
        return served[name]

    def describe_server(self) -> list[str]:
        at_once = f"up to {self.max_connections} requests and questions at once (model.max_connections)"
        return ["; ".join([at_once, *super().describe_server()])]


@dataclass
class OllamaModel(VllmModel):
    """Its fields are the keys of `conf/model/ollama.yaml`.

    Ollama truncates prompts beyond its context silently. So its own API (https://docs.ollama.com/api) is asked:
    `/api/show` describes the model, `/api/generate` loads it, `/api/ps` returns the context with which it is loaded.
    """

    server, usual_url = "Ollama", "http://127.0.0.1:11434/v1"
    context_setting = "OLLAMA_CONTEXT_LENGTH={}"

    def _find_context(self, name: str) -> object:
        model = self.query("/api/show", {"model": name})
        if model is None:
            raise UserError(f"Ollama has no model {name}; get it with `ollama pull {name}`, or see `ollama list`.")
        capabilities = model.get("capabilities")
        for key, capability in (("native_tools", "tools"), ("takes_images", "vision")):
            if isinstance(capabilities, list) and getattr(self, key) is True and capability not in capabilities:
                raise UserError(f"Ollama says that {name} cannot do {capability}; set model.{key}=false.")
        if self.context_tokens is None:
            return None
        self.query("/api/generate", {"model": name, "stream": False}, self.call_deadline_seconds)
        running = {each.get("name"): each for each in list_objects(self.query("/api/ps"), "models")}
        return (running.get(name) or running.get(f"{name}:latest") or {}).get("context_length")


@dataclass
class LlamaCppModel(VllmModel):
    """Its fields are the keys of `conf/model/llamacpp.yaml`.

    The server answers as many requests at once as it has slots; more would wait there, and their time would run out.
    """

    server = "llama.cpp"
    usual_url: ClassVar[str | None] = "http://127.0.0.1:8080/v1"
    context_setting = "--ctx-size {}"

    def check(self) -> None:
        super().check()
        length = self._find_context(self.name)
        self.context_tokens = length if isinstance(length, int) else self.context_tokens

    def _find_context(self, name: str) -> object:
        slots = (self.query("/props") or {}).get("total_slots")
        if not isinstance(slots, int):
            raise UserError(
                "the model server does not say in /props how many requests it answers at once, as llama.cpp's does; "
                "for another server use model=openai_compatible."
            )
        self._slots, self.max_connections = slots, min(self.max_connections, slots)
        served = list_objects(self.query("/v1/models"), "data")
        meta = served[0].get("meta") if served else None
        return meta.get("n_ctx") if isinstance(meta, dict) else None
