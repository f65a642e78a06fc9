"""What model servers of several kinds answer about themselves, and a model behind each; none of them is the real thing.

with serving(ollama(context_length=4096)) as server:
    OllamaModel("qwen3", base_url=server.base_url, context_tokens=8192).check()      # UserError
"""

import json
from typing import Any

from tests.mas.llm.loopback import Handler, Received, answer
from tests.servers.chat_request import read_request
from tests.servers.loopback import Answer
from tests.servers.perfect_model import PerfectModel
from tests.servers.running import completion


def chat(**pages: dict[str, Any] | None) -> Handler:
    """The model of `tests/servers` behind `/v1/chat/completions`; `pages`: what `/<name with _ for />` answers."""
    model = PerfectModel()
    by_path = {f"/{name.replace('_', '/')}": page for name, page in pages.items()}

    def handle(request: Received) -> Answer:
        page = by_path.get(request.path)
        if page is not None:
            return answer(page)
        if request.path == "/v1/chat/completions":
            body = json.dumps(request.body).encode()
            chat = read_request(body)
            return answer(completion(chat, model.reply(chat), body))
        return answer({"error": {"message": f"no route {request.path}"}}, 404)

    return handle


def vllm(*names: str, max_model_len: int | None = 40960) -> Handler:
    served = [{"id": name, "object": "model", "max_model_len": max_model_len} for name in names]
    return chat(v1_models={"object": "list", "data": served})


def llamacpp(slots: int = 2, context_length: int = 16384) -> Handler:
    served = {"object": "list", "data": [{"id": "model.gguf", "meta": {"n_ctx": context_length}}]}
    return chat(props={"total_slots": slots}, v1_models=served)


def ollama(
    *names: str, context_length: int | None = 40960, loaded: bool = True, capabilities: tuple[str, ...] = ("tools",)
) -> Handler:
    """Ollama with these models, in memory or loaded when asked to; `None`: too old to say with which context."""
    model = chat()
    running = {f"{name}:latest" for name in names if loaded}

    def handle(request: Received) -> Answer:
        name = request.body.get("model", "")
        if request.path == "/api/ps":
            length = {} if context_length is None else {"context_length": context_length}
            return answer({"models": [{"name": each, "model": each, **length} for each in sorted(running)]})
        if request.path == "/api/show" and name in names:
            return answer({"capabilities": ["completion", *capabilities], "parameters": ""})
        if request.path == "/api/generate" and name in names:
            running.add(f"{name}:latest")
            return answer({"model": name, "done": True, "done_reason": "load", "response": ""})
        if request.path.startswith("/api/"):
            return answer({"error": f"model '{name}' not found"}, 404)
        return model(request)

    return handle
