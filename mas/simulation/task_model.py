"""Replies of the simulated task model: equal requests get equal replies.

A reply depends on the request and on the epoch and attempt of the sample alone: no file, data set, gold answer or clock
is read. World and seed are in the model's name (`offline/null-3`) and so in the request. Native tool calls need an LM
that reports `supports_function_calling`; without it, tools and calls travel as text.
"""

import json
from dataclasses import replace

from dspy.lm15 import Request, Response, TextPart, ToolCallPart

from mas.runtime.sample_context import current_context
from mas.simulation.chat import Chat, Reply, ReplyPart, create_response, join_text, read_chat
from mas.simulation.roles.roles import create_behaviour, play_role
from mas.simulation.skills.behaviour import Behaviour
from mas.simulation.worlds import parse_world

_EPOCH, _ATTEMPT = 1_000_003, 7_919  # added to the seed, per epoch and attempt; far from the seeds that users choose
_STILL_BROKEN = 0.45  # share of the unparsable replies whose repetition is unparsable as well


def answer_request(request: Request) -> Response:
    """Return the reply to a request; never fails."""
    chat = _add_epoch_to_seed(read_chat(request))
    behaviour = create_behaviour(chat, parse_world(request.model))
    if _breaks_format(chat, behaviour):
        parts: list[ReplyPart] = [TextPart("Let me think about this for a moment before I")]
    else:
        parts = _format_reply(chat, play_role(chat, behaviour))
    return create_response(request.model, join_text(request), parts)


def _add_epoch_to_seed(chat: Chat) -> Chat:
    """Give each further epoch and attempt of a sample a seed of its own."""
    context = current_context()
    if context is None or (context.key.epoch, context.key.attempt) == (1, 1):
        return chat
    key = context.key
    return replace(chat, seed=(chat.seed or 0) + _EPOCH * (key.epoch - 1) + _ATTEMPT * (key.attempt - 1))


def _breaks_format(chat: Chat, behaviour: Behaviour) -> bool:
    """Return whether the reply cannot be parsed; its second request has better odds."""
    chance = 1 - behaviour.compute_chance("keep_to_the_output_format")
    return 1 - behaviour.draw("keep_to_the_output_format") < chance * (_STILL_BROKEN if chat.is_repeated else 1)


def _format_reply(chat: Chat, reply: Reply) -> list[ReplyPart]:
    if reply.calls and chat.native_tools:
        first = len(chat.results) + 1
        return [ToolCallPart(f"call_{first + i}", name, args) for i, (name, args) in enumerate(reply.calls)]
    if reply.calls:
        return [TextPart("\n".join(json.dumps({"tool": name, "arguments": args}) for name, args in reply.calls))]
    values = {name: reply.fields.get(name, "") for name in chat.outputs}
    if chat.wants_json:
        return [TextPart(json.dumps(values, ensure_ascii=False))]
    text = "\n\n".join(
        f"[[ ## {name} ## ]]\n{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in {**values, "completed": ""}.items()
    )
    return [TextPart(text)]
