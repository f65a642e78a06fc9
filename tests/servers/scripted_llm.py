"""A loopback model server in the process of the test: it answers what a function says.

with scripted_llm(lambda body: complete("42")) as server:
    f"model.base_url={server.base_url}"
    json.loads(server.bodies[0])["messages"]
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from tests.servers.loopback import HANG, Answer, Asked, LoopbackServer, answer_json, running

Body = dict[str, Any]  # of a request
MODELS = {"object": "list", "data": [{"id": "scripted", "object": "model"}]}


class ScriptedLlm(LoopbackServer):
    """OpenAI's API; a subclass may have `complete` instead of a function."""

    faults: ClassVar[Mapping[str, Answer]] = {"hang": HANG}

    def __init__(self, complete: Callable[[Body], Body] | None = None, schedule: Any = ()) -> None:
        super().__init__(schedule)
        self.bodies: list[bytes] = []  # of the completions asked for
        self._complete = complete

    @property
    def base_url(self) -> str:
        return f"{super().base_url}/v1"

    def complete(self, body: Body) -> Body:
        """Return the response object."""
        assert self._complete is not None
        return self._complete(body)

    def answer(self, asked: Asked) -> Answer:
        if asked.method == "GET":
            return answer_json(MODELS)
        self.bodies.append(asked.body)
        return answer_json(self.complete(json.loads(asked.body)))


@contextmanager
def scripted_llm(complete: Callable[[Body], Body], schedule: Any = ()) -> Iterator[ScriptedLlm]:
    with running(ScriptedLlm(complete, schedule)) as server:
        yield server
