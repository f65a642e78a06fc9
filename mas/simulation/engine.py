"""The simulated model as an engine of DSPy's LM: one request in, one response out, the same response for the same text.

It sees the request and the number of the sample alone: no file, no data set, no gold answer, no clock. Native tool
calls need an LM that reports `supports_function_calling`; otherwise tools and calls travel as text and work as well.

    lm = dspy.LM("offline/normal-0", engine=OfflineEngine(), async_engine=AsyncOfflineEngine())

World and seed stand in the model's name, and so in the request: replies are a function of it, and caches tell them
apart.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

from dspy.lm15 import Message, Request, Response, TextPart, ToolCallPart, Usage, response_to_events

from mas.runtime.sample_context import current_context
from mas.simulation.reply import Reply
from mas.simulation.request import Chat, read_chat, request_text
from mas.simulation.roles.roles import conduct_of, reply_to
from mas.simulation.skills.conduct import Conduct, World

_CHARS_PER_TOKEN = 4
_EPOCH, _ATTEMPT = 1_000_003, 7_919  # far from the seeds that a user gives
_STILL_BROKEN_AS_JSON = 0.45  # of the replies without any format


def respond(request: Request) -> Response:
    """The simulated model's response to a request; never fails."""
    chat = _of_this_sample(read_chat(request))
    conduct = conduct_of(chat, world_of(request.model))
    text = request_text(request)
    if _breaks_format(chat, conduct):
        parts: list[TextPart | ToolCallPart] = [TextPart("Let me think about this for a moment before I")]
    else:
        parts = _parts(chat, reply_to(chat, conduct))
    called = any(isinstance(part, ToolCallPart) for part in parts)
    return Response(
        id=None,
        model=request.model,
        message=Message.assistant(parts),
        finish_reason="tool_call" if called else "stop",
        usage=_usage(text, parts),
    )


def _of_this_sample(chat: Chat) -> Chat:
    """Another epoch of a question, or another attempt at it, is another draw, as if the request had another seed."""
    context = current_context()
    if context is None or (context.key.epoch, context.key.attempt) == (1, 1):
        return chat
    sample = context.key
    return replace(chat, seed=(chat.seed or 0) + _EPOCH * (sample.epoch - 1) + _ATTEMPT * (sample.attempt - 1))


def world_of(model: str) -> World:
    """The world that a model's name speaks of, as `null-3` does; the normal one of seed 0 for any other name."""
    found = re.search(r"(?:^|/)([a-z]+)-(\d+)$", model)
    return World(found[1], int(found[2])) if found else World()


def _breaks_format(chat: Chat, conduct: Conduct) -> bool:
    """No format at all: DSPy's adapter cannot parse it. Asked again for JSON, the same draw meets better odds."""
    chance = 1 - conduct.chance("keep_to_the_output_format")
    return 1 - conduct.draw("keep_to_the_output_format") < chance * (_STILL_BROKEN_AS_JSON if chat.wants_json else 1)


def _parts(chat: Chat, reply: Reply) -> list[TextPart | ToolCallPart]:
    if reply.calls and chat.native_tools:
        first = len(chat.results) + 1
        return [ToolCallPart(f"call_{first + i}", name, args) for i, (name, args) in enumerate(reply.calls)]
    values = {name: reply.fields.get(name, "") for name in chat.outputs}
    if "tool_calls" in values:
        values["tool_calls"] = {"tool_calls": [{"name": name, "args": args} for name, args in reply.calls]}
    return [TextPart(_written(values, chat.wants_json))]


def _written(values: dict[str, Any], as_json: bool) -> str:
    if as_json:
        return json.dumps(values, ensure_ascii=False)
    marked = {**values, "completed": ""}
    return "\n\n".join(
        f"[[ ## {name} ## ]]\n{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in marked.items()
    )


def _usage(text: str, parts: list[TextPart | ToolCallPart]) -> Usage:
    written = sum(len(p.text) if isinstance(p, TextPart) else len(json.dumps(getattr(p, "input", {}))) for p in parts)
    asked, replied = -(-len(text) // _CHARS_PER_TOKEN), -(-written // _CHARS_PER_TOKEN)
    return Usage(input_tokens=asked, output_tokens=replied, total_tokens=asked + replied)


class OfflineEngine:
    """The simulated model for synchronous calls. It keeps no state: copies, pickles and reloads are all alike."""

    def complete(self, request: Request) -> Response:
        return respond(request)

    def stream(self, request: Request) -> Iterator[Any]:
        yield from response_to_events(respond(request))

    def close(self) -> None:
        """Nothing is held open."""

    def dump_state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "OfflineEngine":
        return cls()


class AsyncOfflineEngine:
    """The simulated model for asynchronous calls."""

    async def complete(self, request: Request) -> Response:
        return respond(request)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        for event in response_to_events(respond(request)):
            yield event

    async def aclose(self) -> None:
        """Nothing is held open."""

    def dump_state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "AsyncOfflineEngine":
        return cls()
