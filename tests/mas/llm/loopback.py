"""A chat endpoint on loopback whose every answer a test writes: `handle(request) -> Answer`.

with serving(complete_with("hello")) as server:
    OpenAIChatModel("any", base_url=server.base_url).create_lm(AgentModel())("hi")     # ["hello"]
    server.requests[0].body["messages"]
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.servers.chat_reply import complete, refusal
from tests.servers.loopback import DRIP, RESET, Answer, Asked, LoopbackServer, running
from tests.servers.loopback import answer_json as answer


@dataclass(frozen=True)
class Received:
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: dict[str, Any]


Handler = Callable[[Received], Answer]


class Server(LoopbackServer):
    def __init__(self, handle: Handler) -> None:
        super().__init__()
        self.handle, self.received = handle, list[Received]()

    @property
    def base_url(self) -> str:
        return f"{super().base_url}/v1"

    @property
    def requests(self) -> list[Received]:
        return self.received

    def answer(self, asked: Asked) -> Answer:
        self.received.append(received := Received(asked.path, asked.headers, json.loads(asked.body or b"{}")))
        return self.handle(received)


@contextmanager
def serving(handle: Handler) -> Iterator[Server]:
    with running(Server(handle)) as server:
        yield server


def completion(text: str, finish_reason: str = "stop", **message: Any) -> dict[str, Any]:
    whole = complete(text, reason=finish_reason, model="any", tokens=(30, 4))
    whole["choices"][0]["message"] |= message
    return whole


def complete_with(text: str, finish_reason: str = "stop", **message: Any) -> Handler:
    return lambda request: answer(completion(text, finish_reason, **message))


def failing(status: int, code: str | None = None, message: str = "busy", **headers: str) -> Handler:
    return lambda request: answer(refusal(message, code), status, **headers)


def body(text: str, kind: str = "application/json") -> Handler:
    return lambda request: Answer(text.encode("utf-8", "surrogateescape"), headers={"Content-Type": kind})


def in_turn(*handlers: Handler) -> Handler:
    """One after the other; the last one again and again."""
    waiting = list(handlers)
    return lambda request: (waiting.pop(0) if len(waiting) > 1 else waiting[0])(request)


def drip(request: Received) -> Answer:
    """A byte now and then: no read time-out ever fires."""
    return DRIP


def reset(request: Received) -> Answer:
    return RESET
