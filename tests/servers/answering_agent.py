"""Someone's agent behind HTTP, on loopback: a test writes what it replies.

with answering_agent(lambda body: {"answer": "5"}) as agent:
    httpx.post(agent.url, json={"question": "2 + 3?", "file": None, "thread_id": "t"}).json()      # {"answer": "5"}
    agent.bodies[0]["question"], agent.headers[0]["authorization"]
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.servers.loopback import RESET, Answer, Asked, LoopbackServer, answer_json, running


@dataclass(frozen=True)
class Raw:
    """A response that is not a JSON object with status 200."""

    body: bytes | str = b""
    status: int = 200
    wait_seconds: float = 0.0
    drop: bool = False  # the connection is closed instead
    headers: dict[str, str] = field(default_factory=dict)


Reply = Callable[[dict[str, Any]], dict[str, Any] | Raw]


class AnsweringAgent(LoopbackServer):
    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply

    @property
    def url(self) -> str:
        return f"{self.base_url}/answer"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(asked.body) for asked in self.log]

    @property
    def headers(self) -> list[Mapping[str, str]]:
        """Names in lower case."""
        return [asked.headers for asked in self.log]

    @property
    def connections(self) -> set[Any]:
        """The clients' addresses."""
        return {asked.client for asked in self.log}

    def answer(self, asked: Asked) -> Answer:
        reply = self.reply(json.loads(asked.body))
        if not isinstance(reply, Raw):
            return answer_json(reply)
        time.sleep(reply.wait_seconds)
        body = reply.body.encode() if isinstance(reply.body, str) else reply.body
        return RESET if reply.drop else Answer(body, reply.status, reply.headers)


@contextmanager
def answering_agent(reply: Reply) -> Iterator[AnsweringAgent]:
    with running(AnsweringAgent(reply)) as agent:
        yield agent
