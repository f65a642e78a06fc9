"""Requests of the GAIA system's agents as a model server recorded them, taken apart.

for sent in agents_requests(server.requests()):
    sent.agent, sent.instructions            # "finalizer", "You are the finalizer: …"
    sent.examples, sent.conversation         # messages: worked examples, then what it is really asked
    conversation_of(sent.examples)           # [("asked", {"answer_request": "…"}), ("answered", {…})]
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mas.agents.tool_adapter import STEP
from mas.prompt_sets import EXAMPLE
from tests.servers.chat_request import read_request

_OBJECTIVE = "In adhering to this structure, your objective is: \n"
_INDENTED = " " * 8  # as DSPy writes each line of the instructions
_EXAMPLE = re.compile(rf"\A{re.escape(EXAMPLE)}\n\n")
_REMINDER = re.compile(
    r"(?:\A|\n\n)Respond with (?:the corresponding output fields|a JSON object|a tool call now).*\Z", re.DOTALL
)
_SECTION = re.compile(r"^\[\[ ## (\w+) ## \]\]\n", re.MULTILINE)
_WITH_HISTORY = ("planner", "researcher", "expert")  # each request of their examples says that it is one
Message = dict[str, Any]
Turn = tuple[Any, ...]


@dataclass(frozen=True)
class Sent:
    agent: str
    body: dict[str, Any]
    outputs: tuple[str, ...]  # fields of a reply's text
    samples: Sequence[Message]
    conversation: Sequence[Message]

    @property
    def instructions(self) -> str:
        return instructions_in(self.body["messages"][0]["content"])

    @property
    def called(self) -> bool:
        """Whether it has the result of a tool."""
        return any(message["role"] == "tool" for message in self.conversation)


def is_reflection(body: dict[str, Any]) -> bool:
    return "`new_instruction`" in body["messages"][0]["content"]


def is_greeting(body: dict[str, Any]) -> bool:
    """Return whether it asks the reflection model, before the first answer, if it is there."""
    return "`greeting`" in body["messages"][0]["content"]


def agents_requests(bodies: Iterable[dict[str, Any]]) -> list[Sent]:
    return [_sent(body) for body in bodies if not (is_reflection(body) or is_greeting(body))]


def reflections(bodies: Iterable[dict[str, Any]]) -> list[dict[str, str]]:
    """The input fields of each reflection."""
    return [sections(body["messages"][-1]["content"]) for body in bodies if is_reflection(body)]


def instructions_in(system: str) -> str:
    """Character for character, as they were before DSPy indented them."""
    if f"\n\n{STEP}" in system:  # an agent with tools
        return system.rpartition(f"\n\n{STEP}")[0]
    _, _, written = system.partition(_OBJECTIVE)
    lines = written.split("\n")
    assert all(line.startswith(_INDENTED) for line in lines), lines
    return "\n".join(line.removeprefix(_INDENTED) for line in lines)


def conversation_of(messages: Iterable[Message]) -> list[Turn]:
    """What was said: ("asked" or "answered", fields), ("called", tool, arguments), ("returned", text)."""
    turns: list[Turn] = []
    for message in messages:
        if message["role"] == "tool":
            turns.append(("returned", message["content"]))
        for call in message.get("tool_calls") or ():
            turns.append(("called", call["function"]["name"], json.loads(call["function"]["arguments"])))
        if message["role"] in ("user", "assistant") and message["content"]:
            turns.append(("asked" if message["role"] == "user" else "answered", sections(message["content"])))
    return turns


def conversation_of_demo(demo: dict[str, Any], outputs: Sequence[str]) -> list[Turn]:
    """The same of an example as `demos.json` has it."""
    turns: list[Turn] = []
    for turn in (*demo.get("history", {"messages": []})["messages"], demo):
        asked = {name: value for name, value in turn.items() if name not in (*outputs, "history", "tool_calls")}
        answered = {name: turn[name] for name in outputs if name in turn}
        calls = turn.get("tool_calls") or {}
        if asked:
            turns.append(("asked", _written(asked)))
        turns += [("called", call["name"], call["args"]) for call in calls.get("tool_calls", ())]
        turns += [("returned", result["value"]) for result in calls.get("tool_call_results") or ()]
        if answered:
            turns.append(("answered", _written(answered)))
    return turns


def sections(text: str) -> dict[str, str]:
    """Field → value."""
    parts = _SECTION.split(_REMINDER.sub("", _EXAMPLE.sub("", text)))
    found = {name: value.strip() for name, value in zip(parts[1::2], parts[2::2], strict=True)}
    return {name: value for name, value in found.items() if name != "completed"}


def _written(fields: dict[str, Any]) -> dict[str, str]:
    """As a model reads them: lists as JSON, no attachment as `None`."""
    return {
        name: value.strip() if isinstance(value, str) else "None" if value is None else json.dumps(value)
        for name, value in fields.items()
    }


def _sent(body: dict[str, Any]) -> Sent:
    chat = read_request(json.dumps(body).encode())
    messages = body["messages"][1:]
    asked = [number for number, message in enumerate(messages) if message["role"] == "user"]
    if chat.role in _WITH_HISTORY:
        begins = next(number for number in asked if not _EXAMPLE.match(messages[number]["content"]))
    else:
        begins = asked[-1]
    return Sent(chat.role, body, chat.outputs, messages[:begins], messages[begins:])
