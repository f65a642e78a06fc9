"""Models behind an OpenAI-compatible chat endpoint, over OpenAI's own client.

OpenAIChatModel(name="gpt-4o-mini", api_key_env="OPENAI_API_KEY").create_lm(AgentModel(temperature=0.7))
"""

import functools
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from mas.llm.profiles.model import REFLECTION, AgentModel
from mas.llm.profiles.profile import ModelProfile, Server
from mas.llm.profiles.reachable import check_reachable
from mas.runtime.errors import UserError

if TYPE_CHECKING:
    from mas.llm.dspy_engine import Engine

OPENAI_URL = "https://api.openai.com/v1"
MAX_TOKENS_FIELDS = ("max_completion_tokens", "max_tokens")
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
}
PROBE_TOKENS = 600  # room for a thinking model's thoughts
MISSING = 404  # HTTP error of an address or a model that the server does not have
NO_TOOLS = (MISSING, 400, 422, 500, 501)  # of servers without function calling, to a request with tools


class _NoRedirects(HTTPRedirectHandler):
    """The key is for this server alone."""

    def redirect_request(self, *args: object) -> None:
        return None


@dataclass
class OpenAIChatModel(ModelProfile):
    """Profile of a model reached over HTTP; its fields are the keys of `conf/model/*.yaml`.

    With `native_tools="auto"` the model is asked to call a tool. Many small models write the call into their text, and
    many servers know no calls: such a model is offered its tools in the prompt.
    """

    max_tokens_field: str = "max_completion_tokens"  # name of `max_tokens` in requests; older servers know only that

    def check(self) -> None:
        super().check()
        for branch, server in self.list_servers().items():
            if server.base_url:
                check_reachable(server.base_url, f"{branch}.base_url", "model server", "http://127.0.0.1:8000/v1")

    def _check_ranges(self) -> None:
        super()._check_ranges()
        if self.native_tools != AUTO and not isinstance(self.native_tools, bool):
            raise UserError(f"model.native_tools={self.native_tools} is unknown; expected true, false or auto.")
        if self.max_tokens_field not in MAX_TOKENS_FIELDS:
            expected = " or ".join(MAX_TOKENS_FIELDS)
            raise UserError(f"model.max_tokens_field={self.max_tokens_field} is unknown; expected {expected}.")

    def calls_natively(self) -> bool:
        return self._probe_result if self.native_tools == AUTO else bool(self.native_tools)

    @functools.cached_property
    def _probe_result(self) -> bool:
        others = {each.name for key, each in self.agents.items() if key != REFLECTION and not each.base_url}
        return all(self._calls_a_tool(name) for name in sorted({self.name, *filter(None, others)}))

    def _calls_a_tool(self, name: str) -> bool:
        temperature = self._resolve_settings(AgentModel(name)).temperature
        sampling = {
            self.max_tokens_field: PROBE_TOKENS,
            **({} if temperature is None else {"temperature": temperature}),
        }
        body = {"model": name, **PROBE, **sampling, **self.extra_body}
        reply = self.query("/v1/chat/completions", body, self.call_deadline_seconds, NO_TOOLS)
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

        `/v1` in the path stands for the base URL, as given. With a body it is a POST.

        Raises:
            UserError: the server answered with another error, or there was no usable answer in time.
        """
        base = (self.base_url or OPENAI_URL).rstrip("/")
        url = base + path.removeprefix("/v1") if path.startswith("/v1/") else base.removesuffix("/v1") + path
        key = self.get_server("").read_key()
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        request = Request(url, None if body is None else json.dumps(body).encode(), headers)
        try:
            with build_opener(_NoRedirects).open(request, timeout=timeout_seconds) as response:
                answer = json.load(response)
        except HTTPError as error:
            error.close()
            if error.code in negative:
                return None
            message = f"the model server refused {url} with HTTP {error.code}; see its log for the reason."
            raise UserError(message) from error
        except (OSError, ValueError) as error:
            raise UserError(
                f"the model server gave no usable answer at {url} ({error}); see whether model.base_url is right."
            ) from error
        if not isinstance(answer, dict):
            message = f"the model server's answer at {url} is no JSON object; see whether model.base_url is right."
            raise UserError(message)
        return answer

    def _name_server(self, server: Server) -> str:
        return server.base_url or OPENAI_URL

    def _dspy_name(self, name: str) -> str:
        return f"openai/{name}"

    def _create_engine(self, server: Server) -> "Engine":
        from mas.llm.openai_engine import create_chat_engine

        url, key = server.base_url or OPENAI_URL, server.read_key()
        return create_chat_engine(url, key, self.max_connections, self.call_deadline_seconds, self.max_tokens_field)


def list_objects(answer: dict[str, object] | None, key: str) -> list[dict[str, object]]:
    """Return the objects in a list of a server's answer; none if it has no such list."""
    items = (answer or {}).get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
