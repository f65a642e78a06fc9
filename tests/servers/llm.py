"""A model behind OpenAI's API which can only repeat what tools return (`perfect_model.py`); `running.py` serves it.

The same request always gets the same reply; only the log of them is kept.

Server(PerfectModel()).answer("POST", "/v1/chat/completions", body)      # 200, {"choices": …}
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.servers.chat_reply import complete, write_fields
from tests.servers.chat_request import BadRequestError, ChatRequest, Reply, read_request
from tests.servers.perfect_model import PerfectModel

MODEL_NAME = "perfect"
CHARS_PER_TOKEN = 4  # a rough count, as for English
Answer = tuple[int, dict[str, Any]]  # HTTP status, JSON body


@dataclass
class Server:
    """The routes: each answers with a status and a JSON body."""

    model: PerfectModel
    bodies: list[bytes] = field(default_factory=list)  # of the completions asked for, oldest first
    by_role: Counter[str] = field(default_factory=Counter)

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        if (method, path) == ("GET", "/v1/models"):
            return 200, {"object": "list", "data": [{"id": MODEL_NAME, "object": "model"}]}
        if (method, path) != ("POST", "/v1/chat/completions"):
            return refuse(404, f"no route {method} {path}")
        self.bodies.append(body)
        try:
            return self.complete(body)
        except BadRequestError as error:
            return refuse(400, str(error))

    def complete(self, body: bytes) -> Answer:
        chat = read_request(body)
        self.by_role[chat.role] += 1
        return 200, completion(chat, self.model.reply(chat), body)


def completion(chat: ChatRequest, reply: Reply, body: bytes) -> dict[str, Any]:
    """Return the response object, which depends on the request alone, in the format that it asks for."""
    content, calls = None, [(call.name, call.arguments) for call in reply.calls]
    if not calls:
        content = write_fields({name: reply.fields.get(name, "") for name in chat.outputs}, chat.as_json)
    elif not chat.native:
        content = "\n".join(json.dumps({"tool": name, "arguments": arguments}) for name, arguments in calls)
        calls = []
    tokens = len(body) // CHARS_PER_TOKEN, len(content or str(calls)) // CHARS_PER_TOKEN
    digest = hashlib.sha256(body).hexdigest()[:16]
    return complete(content, calls, id=digest, model=str(json.loads(body).get("model")), tokens=tokens)


def refuse(status: int, message: str) -> Answer:
    return status, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
