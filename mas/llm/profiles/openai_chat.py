"""Models behind an OpenAI-compatible chat endpoint, over OpenAI's own client.

OpenAIChatModel(name="gpt-4o-mini", api_key_env="OPENAI_API_KEY").create_lm(AgentModel(temperature=0.7))
"""

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mas.llm import AUTO, name_max_tokens
from mas.llm.profiles.model import REFLECTION, AgentModel
from mas.llm.profiles.profile import ModelProfile, Server
from mas.llm.profiles.reachable import check_reachable
from mas.runtime.errors import UserError

if TYPE_CHECKING:
    from mas.llm.engine import Engine

OPENAI_URL = "https://api.openai.com/v1"
QUICK_SECONDS = 10.0  # for every query but those that the model answers, which may take as long as a call
_PROBE_TOOL = {
    "name": "lookup",
    "description": "Look up a number.",
    "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
PROBE = {
    "messages": [{"role": "user", "content": "How many people live in Oslo? Look it up with the tool."}],
    "tools": [{"type": "function", "function": _PROBE_TOOL}],
}
PROBE_TOKENS = 600  # room for a thinking model's thoughts
MISSING = 404  # HTTP error of an address or a model that the server does not have
NO_TOOLS = (MISSING, 400, 422, 500, 501)  # of servers without function calling, to a request with tools


@dataclass
class OpenAIChatModel(ModelProfile):
    """Profile of a model reached over HTTP; its fields are the keys of `conf/model/*.yaml`.

    With `native_tools="auto"` the model is asked to call a tool. Many small models write the call into their text, and
    many servers know no calls: such a model is offered its tools in the prompt.
    """

    def check(self) -> None:
        super().check()
        if self.native_tools != AUTO and not isinstance(self.native_tools, bool):
            raise UserError(f"model.native_tools={self.native_tools} is unknown; expected true, false or auto.")
        for branch, server in self.list_servers().items():
            if server.base_url:
                check_reachable(server.base_url, f"{branch}.base_url", "model server", "http://127.0.0.1:8000/v1")

    def calls_natively(self) -> bool:
        return self._probe_result if self.native_tools == AUTO else bool(self.native_tools)

    @functools.cached_property
    def _probe_result(self) -> bool:
        return all(map(self._calls_a_tool, self.list_local_names(set(self.agents) - {REFLECTION})))

    def _calls_a_tool(self, name: str) -> bool:
        body = {"model": name, **PROBE, name_max_tokens(self.get_server("").base_url or OPENAI_URL, name): PROBE_TOKENS}
        if (temperature := self._resolve_settings(AgentModel(name)).temperature) is not None:
            body["temperature"] = temperature
        reply = self.query("/v1/chat/completions", body | self.extra_body, self.call_deadline_seconds, NO_TOOLS)
        choices = list_objects(reply, "choices")
        message = choices[0].get("message") if choices else None
        return isinstance(message, dict) and bool(message.get("tool_calls"))

    def describe_server(self) -> list[str]:
        if self.native_tools != AUTO:
            return []
        form = "over the wire" if self.calls_natively() else "as text; the model or its server does not call natively"
        return [f"tools: {form}"]

    def query(
        self,
        path: str,
        body: dict[str, object] | None = None,
        timeout_seconds: float = QUICK_SECONDS,
        negative: Collection[int] = (MISSING,),
    ) -> dict[str, object] | None:
        """Return the JSON object at a path of the server, asked with its key; None for an HTTP error in `negative`.

        `/v1` in the path stands for the base URL, as given. With a body it is a POST. No redirect is followed, since
        the key is for this server alone.

        Raises:
            UserError: the server answered with another error, or there was no usable answer in time.
        """
        import httpx

        server = self.get_server("")
        base, key = (server.base_url or OPENAI_URL).rstrip("/"), server.read_key()
        url = base + path.removeprefix("/v1") if path.startswith("/v1/") else base.removesuffix("/v1") + path
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        method = "GET" if body is None else "POST"
        try:
            response = httpx.request(method, url, json=body, headers=headers, timeout=timeout_seconds)
            if response.status_code in negative:
                return None
            answer = response.raise_for_status().json()
            if not isinstance(answer, dict):
                raise ValueError("it is no JSON object")
        except httpx.HTTPStatusError as error:
            message = f"the model server refused {url} with HTTP {response.status_code}; see its log for the reason."
            raise UserError(message) from error
        except (httpx.HTTPError, ValueError) as error:
            raise UserError(
                f"the model server gave no usable answer at {url} ({error}); see whether model.base_url is right."
            ) from error
        return answer

    def _name_server(self, server: Server) -> str:
        return server.base_url or OPENAI_URL

    def _dspy_name(self, name: str) -> str:
        return f"openai/{name}"

    def _create_engine(self, server: Server) -> "Engine":
        from mas.llm.openai_engine import create_chat_engine

        url, key = server.base_url or OPENAI_URL, server.read_key()
        return create_chat_engine(url, key, self.max_connections, self.call_deadline_seconds)


def list_objects(answer: dict[str, object] | None, key: str) -> list[dict[str, object]]:
    """Return the objects in a list of a server's answer; none if it has no such list."""
    items = (answer or {}).get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
