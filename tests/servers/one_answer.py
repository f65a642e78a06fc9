"""A loopback server that has one answer to every request, for how failures of a model's server are told apart.

with server_that_answers(401, refusal("Incorrect API key provided")) as base_url: ...
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers.chat_reply import refusal as refusal
from tests.servers.loopback import Answer, Asked, LoopbackServer, answer_json, running


@contextmanager
def server_that_answers(status: int, body: dict[str, Any]) -> Iterator[str]:
    """Base URL of a loopback server with one answer to everything."""

    class OneAnswer(LoopbackServer):
        def answer(self, asked: Asked) -> Answer:
            return answer_json(body, status)

    with running(OneAnswer()) as server:
        yield f"{server.base_url}/v1"
