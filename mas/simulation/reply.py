"""What a role gives back, before it is written in the format that the request asks for.

Reply(calls=[("read_file", {"file": "sales.csv"})])
Reply({"result": "Found in sales.csv: …"})
"""

from dataclasses import dataclass, field
from typing import Any

from mas.simulation.request import Chat, ToolResult

_MUST_ANSWER = "No more tool calls"
Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Reply:
    """Either tool calls or values for the output fields."""

    fields: dict[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)


def failed(result: ToolResult) -> bool:
    return result.text.startswith((f"{result.name} failed", "Error"))


def no_more_tools(chat: Chat) -> bool:
    return any(_MUST_ANSWER in result.text for result in chat.turns[-1].results)


def revision(chat: Chat) -> str:
    """A word on work done again after feedback; without it the critic would see the same text and decide the same."""
    return f" (done again, revision {len(chat.turns) - 1})" if len(chat.turns) > 1 else ""
