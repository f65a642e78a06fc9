"""A loopback model server in the process of the test: it answers what a function says.

with scripted_llm(lambda body: complete("42")) as server:
    f"model.base_url={server.base_url}"
    json.loads(server.bodies[0])["messages"]
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from tests.servers.chat_reply import refuse
from tests.servers.loopback import HANG, Answer, Asked, LoopbackServer, answer_json, running

Body = dict[str, Any]  # of a request


class ScriptedLlm(LoopbackServer):
    """OpenAI's API; a subclass has `complete` or `reply` instead of a function."""

    faults: ClassVar[Mapping[str, Answer]] = {"hang": HANG}
    model_name = "scripted"

    def __init__(self, complete: Callable[[Body], Body] | None = None, schedule: Any = ()) -> None:
        super().__init__(schedule)
        self.bodies: list[bytes] = []  # of the completions asked for, oldest first
        self._complete = complete

    @property
    def base_url(self) -> str:
        return f"{super().base_url}/v1"

    def complete(self, body: Body) -> Body:
        """Return the response object."""
        assert self._complete is not None
        return self._complete(body)

    def reply(self, body: bytes) -> Answer:
        return answer_json(self.complete(json.loads(body)))

    def answer(self, asked: Asked) -> Answer:
        if (asked.method, asked.path) == ("GET", "/v1/models"):
            return answer_json({"object": "list", "data": [{"id": self.model_name, "object": "model"}]})
        if (asked.method, asked.path) != ("POST", "/v1/chat/completions"):
            return refuse(404, f"no route {asked.method} {asked.path}")
        self.bodies.append(asked.body)
        return self.reply(asked.body)


@contextmanager
def scripted_llm(complete: Callable[[Body], Body], schedule: Any = ()) -> Iterator[ScriptedLlm]:
    with running(ScriptedLlm(complete, schedule)) as server:
        yield server
