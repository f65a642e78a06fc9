"""A model that knows nothing: whatever it says of the world, a tool or the request told it.

It plays the seven roles of the GAIA system. It reads the attached file, and looks the question's words up in what the
file holds: the value under one of them in a table that has another, or the number of the sentence with most
of them. A calculation that the question spells out is done by the calculator. What one role found stands between « and
» for the next.

    PerfectModel(rejected=frozenset()).reply(chat).fields      # {"result": "The file says «17»."}
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.servers.chat_reply import Call
from tests.servers.chat_request import ChatRequest, Reply

UNKNOWN = "unknown"
_FOUND = re.compile(r"«(.*?)»", re.DOTALL)
_CALCULATION = re.compile(r"\d+(?: [-+*/] \d+)+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class PerfectModel:
    """`rejected` names the agents (planner, researcher, expert) whose work its critics always reject."""

    rejected: frozenset[str] = field(default_factory=frozenset)

    def reply(self, chat: ChatRequest) -> Reply:
        roles: dict[str, Callable[[ChatRequest], Reply]] = {
            "planner": _plan,
            "researcher": _research,
            "expert": _solve,
            "finalizer": _finalize,
        }
        if chat.role in roles:
            return roles[chat.role](chat)
        if chat.role.removeprefix("critic_") in self.rejected:
            return Reply({"decision": "reject", "feedback": "This is not good enough; give its sources."})
        return Reply({"decision": "approve", "feedback": "It does what the request asks."})


def _plan(chat: ChatRequest) -> Reply:
    question = " ".join(chat.instruction.split())
    research = [f"Find in the file {chat.file} what answers this: {question}"]
    steps = {"research_steps": research if chat.file else [], "expert_steps": [f"Answer this: {question}"]}
    return Reply(steps)


def _research(chat: ChatRequest) -> Reply:
    if call := _next_reading(chat):
        return Reply(calls=[call])
    found = _look_up(chat)
    return Reply({"result": f"The file says «{found}»." if found else "not found"})


def _solve(chat: ChatRequest) -> Reply:
    known = _FOUND.search(chat.instruction)
    calculator = next((name for name, parameters in chat.tools.items() if "expression" in parameters), None)
    calculation = _CALCULATION.search(chat.instruction)
    answer = known[1] if known else _look_up(chat)
    if not answer and calculation and calculator:
        computed = [_NUMBER.findall(result.text) for result in chat.results if result.tool == calculator]
        if not computed:
            return Reply(calls=[(calculator, {"expression": calculation[0]})])
        answer = computed[0][-1]
    elif not answer and (call := _next_reading(chat)):
        return Reply(calls=[call])
    answer = answer or UNKNOWN
    return Reply({"expert_answer": answer, "reasoning_trace": f"By the findings and tools: «{answer}»."})


def _finalize(chat: ChatRequest) -> Reply:
    known = _FOUND.findall(chat.instruction)
    answer = known[-1] if known else UNKNOWN
    return Reply({"final_answer": answer, "final_reasoning_trace": f"The expert found it: «{answer}»."})


def _next_reading(chat: ChatRequest) -> Call | None:
    tool = next((name for name, parameters in chat.tools.items() if "file" in parameters), None)
    return (tool, {"file": chat.file}) if tool and chat.file and not chat.results else None


def _look_up(chat: ChatRequest) -> str | None:
    """Return what the file says of the question's words."""
    text = "\n".join(result.text for result in chat.results if "file" in result.arguments and not result.failed)
    asked = _words(chat.instruction)
    for record in _records(text):
        for name in asked & record.keys():
            if any(value.lower() in asked for other, value in record.items() if other != name):
                return record[name]
    lines = [line for line in text.splitlines()[1:] if _NUMBER.search(line) and "|" not in line]
    best = max(lines, key=lambda line: len(asked & _words(line)), default="")
    return _NUMBER.findall(best)[0] if best else None


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _records(text: str) -> Iterator[dict[str, str]]:
    """Rows of tables under each line above them."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if " | " in line]
    for number, header in enumerate(rows):
        for row in rows[number + 1 :]:
            yield dict(zip(header[1:], row[1:], strict=False))  # without the number of the row
