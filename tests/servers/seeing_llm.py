"""The server of `running.py`, whose researcher and expert look at the pictures and listen to the sounds of a request.

What they tell of a file is its digest: nobody who has not got its bytes can know it. They call the tool that reads the
file first. Nothing is kept: a request without the bytes is answered with "unseen".

with seeing_llm() as server: ...
with seeing_llm(rambling=True) as server: ...    # the first try of their answers cannot be read: it is asked again
with seeing_llm(quota_at=5) as server: ...       # the fifth request is refused for want of quota

digest(Path("map.png").read_bytes())      # "sha-3b5d0c9a41f2"
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers.chat_reply import refusal
from tests.servers.chat_request import ChatRequest, Reply
from tests.servers.loopback import Answer, answer_json, running
from tests.servers.running import RunningServer

UNSEEN = "unseen"
RAMBLING = "Let me have a closer look at it first."
AGAIN = b"This reply cannot be used."  # of a second request


class SeeingServer(RunningServer):
    def __init__(self, rambling: bool = False, quota_at: int = 0) -> None:
        super().__init__()
        self.rambling, self.quota_at = rambling, quota_at

    def reply(self, body: bytes) -> Answer:
        if len(self.bodies) == self.quota_at:
            return answer_json(refusal("no quota", "insufficient_quota", "insufficient_quota"), 429)
        return super().reply(body)

    def respond(self, chat: ChatRequest, body: bytes) -> Reply:
        if chat.role not in ("researcher", "expert"):
            return super().respond(chat, body)
        if call := _reading(chat):
            return call
        return Reply(text=RAMBLING) if self.rambling and AGAIN not in body else _telling(chat, json.loads(body))


def digest(data: bytes) -> str:
    return f"sha-{hashlib.sha256(data).hexdigest()[:12]}"


def media_in(body: dict[str, Any]) -> list[tuple[str, bytes]]:
    """The pictures and sounds of a request: media type or format, bytes."""
    contents = (message["content"] for message in body["messages"] if isinstance(message.get("content"), list))
    return [_media(part) for content in contents for part in content if part["type"] != "text"]


def _media(part: dict[str, Any]) -> tuple[str, bytes]:
    if part["type"] == "input_audio":
        return part["input_audio"]["format"], base64.b64decode(part["input_audio"]["data"], validate=True)
    head, _, data = part["image_url"]["url"].partition(";base64,")
    return head.removeprefix("data:"), base64.b64decode(data, validate=True)


def _reading(chat: ChatRequest) -> Reply | None:
    """Once, by whoever is offered the tool."""
    if chat.results or not chat.file or "read_file" not in chat.tools:
        return None
    return Reply(calls=[("read_file", {"file": chat.file})])


def _telling(chat: ChatRequest, body: dict[str, Any]) -> Reply:
    told = ", ".join(digest(data) for _, data in media_in(body)) or UNSEEN
    if chat.role == "researcher":
        return Reply({"result": f"It shows {told}."})
    return Reply({"expert_answer": told, "reasoning_trace": f"The file itself: «{told}»."})


@contextmanager
def seeing_llm(rambling: bool = False, quota_at: int = 0) -> Iterator[RunningServer]:
    with running(SeeingServer(rambling, quota_at)) as server:
        yield server
