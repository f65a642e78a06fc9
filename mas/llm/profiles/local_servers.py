"""Models that llama.cpp, vLLM, SGLang, LM Studio and Ollama serve on one's own machines: `conf/model/`.

Before a run, the server is asked which models it has, how long their context is, and whether the model calls a tool
over the wire. Tried on llama.cpp's own server (build 11549); the others are tested against stand-ins that answer as
documented.
"""

import functools
import json
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from mas.llm.profiles.model import REFLECTION
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.errors import UserError

QUICK_SECONDS = 10.0  # for every query but those that the model answers, which may take as long as a call
AUTO = "auto"  # native_tools: as the model does
_PROBE_TOOL = {
    "name": "lookup",
    "description": "Look up a number.",
    "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
PROBE = {
    "messages": [{"role": "user", "content": "How many people live in Oslo? Look it up with the tool."}],
    "tools": [{"type": "function", "function": _PROBE_TOOL}],
    "max_tokens": 600,  # room for a thinking model's thoughts
    "temperature": 0,
}
NO_TOOLS = (400, 422, 500, 501)  # HTTP errors of servers without function calling, to a request with tools


class ServerRefusalError(UserError):
    """The server answered with an error."""

    def __init__(self, url: str, code: int) -> None:
        super().__init__(f"the model server refused {url} with HTTP {code}; see its log for the reason.")
        self.code = code


def query_server(
    url: str, timeout_seconds: float, body: dict[str, object] | None = None, api_key: str | None = None
) -> dict[str, object] | None:
    """Return the JSON object at a URL of a model server; None if it has no such address or model (404).

    Raises:
        ServerRefusalError: the server answered with an error.
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
        raise ServerRefusalError(url, error.code) from error
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
class LocalModel(OpenAIChatModel):
    """Profile of a server on one's own machine, which is asked about itself before a run.

    With `native_tools="auto"` it is asked to call a tool. Many small models write the call into their text, and many
    servers know no calls: such a model is offered its tools in the prompt.
    """

    native_tools: bool | str = AUTO
    max_tokens_field: str = "max_tokens"
    max_connections: int = 4
    detect_truncation: bool = True

    def check(self) -> None:
        super().check()
        self.check_server()

    @abstractmethod
    def check_server(self) -> None:
        """Ask the server about itself.

        Raises:
            UserError: it does not have the model, or not with the context length that the profile says.
        """

    def _check_native_tools(self) -> None:
        if self.native_tools != AUTO:
            self._require("native_tools", isinstance(self.native_tools, bool), "true, false or auto")

    def calls_natively(self) -> bool:
        return self._probe_result if self.native_tools == AUTO else bool(self.native_tools)

    @functools.cached_property
    def _probe_result(self) -> bool:
        others = {each.name for key, each in self.agents.items() if key != REFLECTION and not each.base_url}
        return all(self._calls_a_tool(name) for name in sorted({self.name, *filter(None, others)}))

    def _calls_a_tool(self, name: str) -> bool:
        body = {"model": name, **PROBE, **self.extra_body}
        try:
            reply = self.query("/v1/chat/completions", body, self.call_deadline_seconds)
        except ServerRefusalError as error:
            if error.code in NO_TOOLS:
                return False
            raise
        choices = _list_objects(reply, "choices")
        message = choices[0].get("message") if choices else None
        return isinstance(message, dict) and bool(message.get("tool_calls"))

    def describe_server(self) -> list[str]:
        at_once = f"up to {self.max_connections} requests and questions at once (model.max_connections)"
        if self.native_tools != AUTO:
            return [at_once]
        form = "over the wire" if self.calls_natively() else "as text; the model or its server does not call natively"
        return [f"{at_once}; tools: {form}"]

    def query(
        self, path: str, body: dict[str, object] | None = None, timeout_seconds: float = QUICK_SECONDS
    ) -> dict[str, object] | None:
        """Call `query_server` with a path on this server and its key; `/v1` stands for the base URL, as given."""
        base = (self.base_url or "").rstrip("/")
        url = base + path.removeprefix("/v1") if path.startswith("/v1/") else base.removesuffix("/v1") + path
        return query_server(url, timeout_seconds, body, self.get_endpoint("").read_key())


@dataclass
class VllmModel(LocalModel):
    """Profile whose fields are the keys of `conf/model/vllm.yaml`.

    vLLM refuses a prompt that is too long with an error of its own. `GET /v1/models` returns the context length with
    which it was started (`max_model_len`).
    """

    server: ClassVar[str] = "vLLM"
    context_option: ClassVar[str] = "--max-model-len"
    base_url: str | None = "http://127.0.0.1:8000/v1"

    def check_server(self) -> None:
        served = {model.get("id"): model.get("max_model_len") for model in self._list_models()}
        for name in self.local_names:
            if name not in served:
                there = ", ".join(map(str, served)) or "none"
                raise UserError(f"{self.server} serves no model {name}; model.name must be one of: {there}.")
            length = served[name]
            if self.context_tokens is not None and isinstance(length, int) and length < self.context_tokens:
                raise UserError(
                    f"{self.server} was started with a context of {length} tokens for {name}, fewer than "
                    f"model.context_tokens={self.context_tokens}; start it with {self.context_option} "
                    f"{self.context_tokens}, or lower model.context_tokens."
                )

    def _list_models(self) -> list[dict[str, object]]:
        return _list_objects(self.query("/v1/models"), "data")


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
        models = _list_objects(self.query("/api/v0/models"), "data")
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

    def check_server(self) -> None:
        for name in self.local_names:
            self._check_capabilities(name)
            if self.context_tokens is not None:
                self._check_context(name, self.context_tokens)

    def _check_capabilities(self, name: str) -> None:
        model = self.query("/api/show", {"model": name})
        if model is None:
            raise UserError(f"Ollama has no model {name}; get it with `ollama pull {name}`, or see `ollama list`.")
        capabilities = model.get("capabilities")
        for key, capability in (("native_tools", "tools"), ("takes_images", "vision")):
            if isinstance(capabilities, list) and getattr(self, key) is True and capability not in capabilities:
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
            self.query("/api/generate", {"model": name, "stream": False}, self.call_deadline_seconds)
            running = self._find_running(name)
        length = None if running is None else running.get("context_length")
        return length if isinstance(length, int) else None

    def _find_running(self, name: str) -> dict[str, object] | None:
        models = _list_objects(self.query("/api/ps"), "models")
        return next((each for each in models if each.get("name") in (name, f"{name}:latest")), None)


@dataclass
class LlamaCppModel(LocalModel):
    """Profile whose fields are the keys of `conf/model/llamacpp.yaml`.

    `GET /props` says how many requests the server answers at once (`total_slots`), `GET /v1/models` how long the
    context of each is (`meta.n_ctx`). More requests would wait in the server, and their time would run out.
    """

    base_url: str | None = "http://127.0.0.1:8080/v1"
    max_tokens: int | None = 2048
    max_connections: int = 64

    def check_server(self) -> None:
        slots = (self.query("/props") or {}).get("total_slots")
        if not isinstance(slots, int):
            raise UserError(
                f"the server at {self.base_url} does not say in /props how many requests it answers at once, as "
                "llama.cpp's does; for another server use model=openai_compatible."
            )
        self.max_connections = min(self.max_connections, slots)
        served = _list_objects(self.query("/v1/models"), "data")
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
