"""The model server of `llm.py` on loopback, in the process of the test.

with running_llm(rejected=["expert"]) as server:
    dspy.LM("openai/perfect", api_base=server.base_url, api_key="none")
    server.requests()[0]["messages"]
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.servers.llm import Server
from tests.servers.loopback import Answer, Asked, LoopbackServer, answer_json, running
from tests.servers.perfect_model import PerfectModel


class RunningServer(LoopbackServer):
    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server

    @property
    def base_url(self) -> str:
        return f"{super().base_url}/v1"

    def answer(self, asked: Asked) -> Answer:
        status, body = self.server.answer(asked.method, asked.path, asked.body)
        return answer_json(body, status)

    def requests(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The bodies of the completions asked for since the last reset, oldest first."""
        return [json.loads(body) for body in self.server.bodies]

    def stats(self) -> dict[str, Any]:
        return {"requests": len(self.server.bodies), "by_role": dict(self.server.by_role)}

    def reset(self) -> None:
        self.server.bodies.clear()
        self.server.by_role.clear()


@contextmanager
def running_llm(rejected: Sequence[str] = (), server: Server | None = None) -> Iterator[RunningServer]:
    """Serve the perfect model, whose critics reject the work of these agents, or another model."""
    with running(RunningServer(server or Server(PerfectModel(frozenset(rejected))))) as listening:
        yield listening
