"""Replies of the simulated task model: equal requests get equal replies.

A reply depends on the request and on the sample's epoch and attempt alone: no file, gold answer or clock is read.
"""

import ast
import json
import re
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from types import ModuleType

from dspy.lm15 import Request, Response, TextPart, ToolCallPart

from mas.runtime.sample_context import current_context
from mas.simulation.behaviour import FORMAT, Behaviour, parse_world
from mas.simulation.chat import Chat, ToolNeeded, create_response, format_fields, read_chat

_EPOCH, _ATTEMPT = 1_000_003, 7_919  # added to the seed for each epoch and attempt
_STILL_BROKEN = 0.45  # share of the unparsable replies whose repetition is unparsable as well
_CHOICES = re.compile(r"Literal(\[.*?\])(?:\):|$)", re.DOTALL)
_EMPTY: dict[str, object] = {"int": 0, "float": 0.0, "bool": False, "list": [], "dict": {}}


def answer_request(request: Request) -> Response:
    """Return the reply to a request; never fails."""
    chat = _add_epoch_to_seed(read_chat(request))
    agents = _import_agents(chat.role) if chat.role else None
    question = agents.read_question(chat) if agents else chat.first_request
    behaviour = Behaviour(parse_world(request.model), chat, question)
    if _breaks_format(chat, behaviour):
        return create_response(request, [TextPart("Let me think about this for a moment before I")])
    try:
        if agents:
            reply = agents.REPLIES[chat.role](chat, behaviour)
        else:
            reply = {name: _choose_placeholder(kind) for name, kind in chat.outputs.items()}
    except ToolNeeded as needed:
        return create_response(request, [_format_call(chat, *needed.args)])
    values = {name: reply.get(name, "") for name in chat.outputs}
    text = json.dumps(values, ensure_ascii=False) if chat.wants_json else format_fields(values)
    return create_response(request, [TextPart(text)])


def _import_agents(role: str) -> ModuleType:
    """Return the module of the system that an agent belongs to; only that one is loaded."""
    system = role[:3] if role.startswith(("toy_", "bos_")) else "gaia"
    return import_module(f"mas.simulation.{system}")


def _add_epoch_to_seed(chat: Chat) -> Chat:
    context = current_context()
    if context is None or (context.key.epoch, context.key.attempt) == (1, 1):
        return chat
    key = context.key
    return replace(chat, seed=(chat.seed or 0) + _EPOCH * (key.epoch - 1) + _ATTEMPT * (key.attempt - 1))


def _breaks_format(chat: Chat, behaviour: Behaviour) -> bool:
    """Return whether the reply cannot be parsed; its second request has better odds."""
    chance = 1 - behaviour.compute_chance(FORMAT)
    return 1 - behaviour.draw(FORMAT) < chance * (_STILL_BROKEN if chat.is_repeated else 1)


def _choose_placeholder(kind: str) -> object:
    """Return a value of a field's type; of several choices the last one, such as ReAct's `finish`."""
    if choices := _CHOICES.match(kind):
        with suppress(ValueError, SyntaxError, IndexError, TypeError, MemoryError, RecursionError):
            return ast.literal_eval(choices[1])[-1]
    return _EMPTY.get(re.split(r"\W", kind)[0], "unknown")


def _format_call(chat: Chat, name: str, arguments: dict[str, object]) -> TextPart | ToolCallPart:
    if chat.native_tools:
        return ToolCallPart(f"call_{len(chat.results) + 1}", name, arguments)
    return TextPart(json.dumps({"tool": name, "arguments": arguments}))
