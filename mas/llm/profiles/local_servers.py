"""Models that llama.cpp, vLLM and Ollama serve on one's own machines: `conf/model/{llamacpp,vllm,ollama}.yaml`.

Before a run, the server is asked which models it has and how long their context is. Tried on llama.cpp's own server
(build 11549); the others are tested against stand-ins that answer as documented.
"""

import json
from dataclasses import dataclass
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.errors import UserError

QUICK_SECONDS = 10.0  # for every query but the loading of a model, which may take as long as a call


def query_server(
    url: str, timeout_seconds: float, body: dict[str, object] | None = None, api_key: str | None = None
) -> dict[str, object] | None:
    """Return the JSON object at a URL of a model server; None if it has no such address or model (404).

    Raises:
        UserError: there was no usable answer in time.
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


def _list_objects(answer: dict[str, object] | None, key: str) -> list[dict[str, object]]:
    items = (answer or {}).get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


@dataclass
class VllmModel(OpenAIChatModel):
    """Profile whose fields are the keys of `conf/model/vllm.yaml`.

    vLLM refuses a prompt that is too long with an error of its own. `GET /v1/models` returns the context length with
    which it was started (`max_model_len`).
    """

    base_url: str | None = "http://127.0.0.1:8000/v1"
    max_tokens_field: str = "max_tokens"
    max_connections: int = 4
    detect_truncation: bool = True

    def check(self) -> None:
        super().check()
        url = f"{(self.base_url or '').rstrip('/')}/models"
        listed = _list_objects(query_server(url, QUICK_SECONDS, api_key=self.get_endpoint("").read_key()), "data")
        served = {model.get("id"): model.get("max_model_len") for model in listed}
        for name in self.local_names:
            if name not in served:
                there = ", ".join(map(str, served)) or "none"
                raise UserError(f"vLLM serves no model {name}; model.name must be one of: {there}.")
            length = served[name]
            if self.context_tokens is not None and isinstance(length, int) and length < self.context_tokens:
                raise UserError(
                    f"vLLM was started with a context of {length} tokens for {name}, fewer than "
                    f"model.context_tokens={self.context_tokens}; start it with --max-model-len "
                    f"{self.context_tokens}, or lower model.context_tokens."
                )


@dataclass
class OllamaModel(OpenAIChatModel):
    """Profile whose fields are the keys of `conf/model/ollama.yaml`.

    Ollama's `/v1` ignores a context length in a request (`options.num_ctx`), has a short one by default, and truncates
    longer prompts silently. So the length is checked before a run through its own API (https://docs.ollama.com/api):
    `POST /api/show` describes the model, `POST /api/generate` without a prompt loads it, `GET /api/ps` returns the
    context with which it is loaded.
    """

    base_url: str | None = "http://127.0.0.1:11434/v1"
    max_tokens_field: str = "max_tokens"
    max_connections: int = 4
    detect_truncation: bool = True

    def check(self) -> None:
        super().check()
        for name in self.local_names:
            self._check_capabilities(name)
            if self.context_tokens is not None:
                self._check_context(name, self.context_tokens)

    def _check_capabilities(self, name: str) -> None:
        model = self._query("/api/show", {"model": name})
        if model is None:
            raise UserError(f"Ollama has no model {name}; get it with `ollama pull {name}`, or see `ollama list`.")
        capabilities = model.get("capabilities")
        for key, capability in (("native_tools", "tools"), ("takes_images", "vision")):
            if isinstance(capabilities, list) and getattr(self, key) and capability not in capabilities:
                raise UserError(f"Ollama says that {name} cannot do {capability}; set model.{key}=false.")

    def _check_context(self, name: str, needed: int) -> None:
        loaded = self._load_context(name)
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

    def _load_context(self, name: str) -> int | None:
        """Return the context length of the loaded model, after loading it if necessary."""
        if (running := self._find_running(name)) is None:
            self._query("/api/generate", {"model": name, "stream": False}, self.call_deadline_seconds)
            running = self._find_running(name)
        length = None if running is None else running.get("context_length")
        return length if isinstance(length, int) else None

    def _find_running(self, name: str) -> dict[str, object] | None:
        models = _list_objects(self._query("/api/ps"), "models")
        return next((each for each in models if each.get("name") in (name, f"{name}:latest")), None)

    def _query(
        self, path: str, body: dict[str, object] | None = None, timeout_seconds: float = QUICK_SECONDS
    ) -> dict[str, object] | None:
        root = (self.base_url or "").rstrip("/").removesuffix("/v1")
        return query_server(root + path, timeout_seconds, body, self.get_endpoint("").read_key())


@dataclass
class LlamaCppModel(OpenAIChatModel):
    """Profile whose fields are the keys of `conf/model/llamacpp.yaml`.

    `GET /props` says how many requests the server answers at once (`total_slots`), `GET /v1/models` how long the
    context of each is (`meta.n_ctx`). More requests would wait in the server, and their time would run out.
    """

    base_url: str | None = "http://127.0.0.1:8080/v1"
    native_tools: bool = False
    max_tokens: int | None = 2048
    max_tokens_field: str = "max_tokens"
    max_connections: int = 64
    detect_truncation: bool = True

    def check(self) -> None:
        super().check()
        base_url, key = (self.base_url or "").rstrip("/"), self.get_endpoint("").read_key()
        slots = (query_server(f"{base_url.removesuffix('/v1')}/props", QUICK_SECONDS, api_key=key) or {}).get(
            "total_slots"
        )
        if not isinstance(slots, int):
            raise UserError(
                f"the server at {base_url} does not say in /props how many requests it answers at once, as llama.cpp's "
                "does; for another server use model=openai_compatible."
            )
        self.max_connections = min(self.max_connections, slots)
        served = _list_objects(query_server(f"{base_url}/models", QUICK_SECONDS, api_key=key), "data")
        meta = served[0].get("meta") if served else None
        length = meta.get("n_ctx") if isinstance(meta, dict) else None
        if not isinstance(length, int):
            return
        if self.context_tokens is not None and length < self.context_tokens:
            raise UserError(
                f"llama.cpp was started with a context of {length} tokens for each of its {slots} slots, fewer than "
                f"model.context_tokens={self.context_tokens}; start it with --ctx-size {self.context_tokens * slots}, "
                "or lower model.context_tokens."
            )
        self.context_tokens = length
