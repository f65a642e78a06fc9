"""A model on loopback which can only repeat what tools return (`perfect_model.py`), in the process of the test.

The same request always gets the same reply; only the log of them is kept.

with running_llm(rejected=["expert"]) as server:
    dspy.LM("openai/perfect", api_base=server.base_url, api_key="none")
    server.requests()[0]["messages"]
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.servers.chat_reply import complete, refuse, write_fields
from tests.servers.chat_request import BadRequestError, ChatRequest, Reply, read_request
from tests.servers.loopback import Answer, answer_json, running
from tests.servers.perfect_model import PerfectModel
from tests.servers.scripted_llm import ScriptedLlm

CHARS_PER_TOKEN = 4  # a rough count, as for English


class RunningServer(ScriptedLlm):
    model_name = "perfect"

    def __init__(self, rejected: Sequence[str] = ()) -> None:
        """`rejected`: the agents whose work its critics always reject."""
        super().__init__()
        self.model = PerfectModel(frozenset(rejected))
        self.by_role: Counter[str] = Counter()

    def respond(self, chat: ChatRequest, body: bytes) -> Reply:
        return self.model.reply(chat)

    def reply(self, body: bytes) -> Answer:
        try:
            chat = read_request(body)
        except BadRequestError as error:
            return refuse(400, str(error))
        self.by_role[chat.role] += 1
        return answer_json(completion(chat, self.respond(chat, body), body))

    def requests(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The bodies of the completions asked for since the last reset, oldest first."""
        return [json.loads(body) for body in self.bodies]

    def stats(self) -> dict[str, Any]:
        return {"requests": len(self.bodies), "by_role": dict(self.by_role)}

    def reset(self) -> None:
        self.bodies.clear()
        self.by_role.clear()


def completion(chat: ChatRequest, reply: Reply, body: bytes) -> dict[str, Any]:
    """Return the response object, which depends on the request alone, in the format that it asks for."""
    content, calls = reply.text or None, reply.calls
    if not (calls or content):
        content = write_fields({name: reply.fields.get(name, "") for name in chat.outputs}, chat.as_json)
    elif calls and not chat.native:
        content = "\n".join(json.dumps({"tool": name, "arguments": arguments}) for name, arguments in calls)
        calls = ()
    tokens = len(body) // CHARS_PER_TOKEN, len(content or str(calls)) // CHARS_PER_TOKEN
    digest = hashlib.sha256(body).hexdigest()[:16]
    return complete(content, calls, id=digest, model=str(json.loads(body).get("model")), tokens=tokens)


@contextmanager
def running_llm(rejected: Sequence[str] = ()) -> Iterator[RunningServer]:
    with running(RunningServer(rejected)) as server:
        yield server
