"""What each of the seven agents replies, mistakes included.

reply = reply_to(chat, Dice(text))
reply.calls      # [("read_file", {"file": "sales.csv"})] or, once the file is read, []
reply.fields     # {"result": "Found in sales.csv: …"}
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mas.offline import mistakes
from mas.offline.chat import Chat, ToolResult
from mas.offline.material import NOTHING_FOUND, answer, findings, question_in, section
from mas.offline.mistakes import Dice
from mas.offline.solving import Finding, reckoned, rounded
from mas.offline.wording import number, written

UNKNOWN = "unknown"
_MAX_PAGES = 8
_PAGE = re.compile(r"\bpage (\d+) of (\d+)\b", re.IGNORECASE)
_MUST_ANSWER = "No more tool calls"


@dataclass(frozen=True)
class Reply:
    """Either tool calls or values for the output fields."""

    fields: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


def reply_to(chat: Chat, dice: Dice) -> Reply:
    """The reply of the agent that the request is for; any other program's fields get a plain placeholder."""
    role = _REPLIES.get(chat.role or "")
    return role(chat, dice) if role else Reply(dict.fromkeys(chat.outputs, UNKNOWN))


def _planner(chat: Chat, dice: Dice) -> Reply:
    question = question_in(chat.first_request)
    steps = ["Work out the answer to the question from the research results.", "Give it in the form that is asked for."]
    steps += [f"Before that, check the work again (revision {n})." for n in range(1, len(chat.turns))]
    if chat.file is None:
        return Reply({"research_steps": [], "expert_steps": steps})
    if dice.falls("forgets file", mistakes.PLANNER_FORGETS_FILE):
        return Reply({"research_steps": [f"Look for general information to answer: {question}"], "expert_steps": steps})
    return Reply(
        {
            "research_steps": [f"Read the file {chat.file} and find what is needed to answer: {question}"],
            "expert_steps": steps,
        }
    )


def _researcher(chat: Chat, dice: Dice) -> Reply:
    question = question_in(chat.first_request)
    if chat.file is None or "read_file" not in chat.tools:
        return Reply({"result": "No source is needed: the question can be answered from its own text."})
    read = [result for result in chat.results if result.name == "read_file"]
    if read and _failed(read[-1]):
        return Reply({"result": f"{NOTHING_FOUND} The file could not be read: {read[-1].text}"})
    if not read:
        return Reply(calls=[("read_file", {"file": chat.file})])
    if following := _next_page(read):
        return Reply(calls=[("read_file", {"file": chat.file, "page": following})])
    misread = dice.falls("misreads", mistakes.RESEARCHER_MISREADS)
    found = findings(question, _joined(read), misread)
    return Reply({"result": f"Found in {chat.file}{_revision(chat)}:\n\n{found}"})


def _revision(chat: Chat) -> str:
    """A word on work done again after feedback; without it the critic would see the same text and decide the same."""
    return f" (done again, revision {len(chat.turns) - 1})" if len(chat.turns) > 1 else ""


def _joined(read: list[ToolResult]) -> str:
    """The pages of a file as one text: without the header of each, and without column headings said already."""
    lines: list[str] = []
    for result in read:
        header, parted, body = result.text.partition("\n\n")
        page = (body if parted and _PAGE.search(header) else result.text).splitlines()
        while lines and page and page[0].startswith(("sheet ", "row | ")) and page[0] in lines:
            page.pop(0)
        lines += page
    return "\n".join(lines)


def _next_page(read: list[ToolResult]) -> int | None:
    """The page to read next, if the newest result says that there are more."""
    match = _PAGE.search(read[-1].text.partition("\n\n")[0])
    if not match or _MUST_ANSWER in read[-1].text or int(match[1]) >= min(int(match[2]), _MAX_PAGES):
        return None
    return int(match[1]) + 1


def _expert(chat: Chat, dice: Dice) -> Reply:
    question, material = _task(chat.first_request)
    slip = dice.falls("slips", mistakes.EXPERT_SLIPS)
    finding = answer(question, material, slip)
    if finding is None:
        return _answered(UNKNOWN, "The research results do not show the answer.")
    call = _tool_for(finding)
    done = next((result for result in chat.turns[-1].results if call and result.name == call[0]), None)
    if call and call[0] in chat.tools and done is None and not _no_more_tools(chat):
        return Reply(calls=[call])
    value = rounded(done.text, finding.decimals) if done and not _failed(done) else _unaided(finding)
    return _answered(_miscounted(value) if slip and not material else value, finding.why + _revision(chat))


def _failed(result: ToolResult) -> bool:
    return result.text.startswith((f"{result.name} failed", "Error"))


def _no_more_tools(chat: Chat) -> bool:
    return any(_MUST_ANSWER in result.text for result in chat.turns[-1].results)


def _task(request: str) -> tuple[str, str]:
    """The question and the research results of an expert's or a critic's request."""
    material = section(request, "research results")
    return question_in(request), "" if material == "(none)" or "No source is needed" in material else material


def _tool_for(finding: Finding) -> tuple[str, dict[str, Any]] | None:
    if finding.conversion:
        quantity, unit = finding.conversion
        return "unit_converter", {"quantity": quantity, "to_unit": unit}
    return ("calculator", {"expression": finding.expression}) if finding.expression else None


def _unaided(finding: Finding) -> str:
    """The answer without a tool: sums are done in the head, conversions are not known by heart."""
    if finding.answer is not None:
        return finding.answer
    value = reckoned(finding.expression) if finding.expression else None
    return UNKNOWN if value is None else written(value, finding.decimals)


def _miscounted(value: str) -> str:
    """A slip where there is no table to mislead: one off in a number, two letters changed over in a word."""
    amount = number(value)
    return written(amount + 1, None) if amount is not None else value[1::-1] + value[2:]


def _answered(value: str, why: str) -> Reply:
    return Reply({"expert_answer": value, "reasoning_trace": f"{why} The answer is {value}."})


def _critic_planner(chat: Chat, dice: Dice) -> Reply:
    plan = section(chat.request, "research steps")
    sound = chat.file is None or chat.file in plan
    return _verdict(sound, dice, f"No research step reads the attached file {chat.file}: add one that does.")


def _critic_researcher(chat: Chat, dice: Dice) -> Reply:
    sound = NOTHING_FOUND not in chat.request
    return _verdict(sound, dice, "The findings do not hold what the topic asks for: read the source again.")


def _critic_expert(chat: Chat, dice: Dice) -> Reply:
    question, material = _task(chat.request)
    given = section(chat.request, "expert's answer")
    finding = answer(question, material)
    expected = _unaided(finding) if finding else UNKNOWN
    sound = expected == given or (expected == UNKNOWN and given not in ("", UNKNOWN))
    return _verdict(
        sound, dice, "The answer does not follow from the research results: check column, row and rounding."
    )


def _verdict(sound: bool, dice: Dice, complaint: str) -> Reply:
    chance = mistakes.CRITIC_FALSE_ALARM if sound else mistakes.CRITIC_MISSES_FLAW
    if sound != dice.falls("errs", chance):
        return Reply({"decision": "approve", "feedback": "The work is complete and follows from what it is based on."})
    return Reply({"decision": "reject", "feedback": complaint})


def _finalizer(chat: Chat, dice: Dice) -> Reply:
    given = section(chat.request, "expert's answer") or UNKNOWN
    reasoning = section(chat.request, "expert's reasoning") or "There was no reasoning to report."
    wrapped = dice.falls("wraps", mistakes.FINALIZER_WRAPS_IN_PROSE)
    final = f"Based on the research, the final answer is {given}." if wrapped else given
    return Reply({"final_answer": final, "final_reasoning_trace": reasoning})


_REPLIES: dict[str, Callable[[Chat, Dice], Reply]] = {
    "planner": _planner,
    "critic_planner": _critic_planner,
    "researcher": _researcher,
    "critic_researcher": _critic_researcher,
    "expert": _expert,
    "critic_expert": _critic_expert,
    "finalizer": _finalizer,
}
