"""A model that knows nothing: whatever it says of the world, a tool or the request told it.

It looks facts up and has spelled-out arithmetic and unit conversions computed by tools. It does not compare, count or
add up what it reads: such a question gets the value of a single row.

It plays the seven roles of the GAIA system. What one role writes for another to find (the question inside a step, the
excerpt inside a finding, the answer inside a reasoning trace) stands in fixed phrases; where these are missing, it goes
by the labels of the request (`The question:`, `The research results:`, …).

    PerfectModel(rejected=frozenset()).reply(chat).fields      # {"result": "What sales.csv says: …"}
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.servers.arithmetic import conversions, expressions, in_asked_form
from tests.servers.chat_reply import Reply
from tests.servers.chat_request import ChatRequest, OfferedTool, ToolCall, ToolResult
from tests.servers.markings import amounts
from tests.servers.reader import find_answer, relevant_excerpt
from tests.servers.records import is_table_line

NOT_FOUND = "not found"
UNKNOWN = "unknown"
MAX_EXCERPT_CHARS = 6000
MAX_PAGES = 50
MAX_MEMBERS = 20
_STEP_QUESTION = re.compile(r'the question "(.+)" (?:and report it|by the findings)', re.DOTALL)
_EXCERPT = re.compile(r"\(excerpt begins\)(.*?)\(excerpt ends\)", re.DOTALL)
_ANSWER = re.compile(r"the answer is «(.*)»", re.DOTALL)
_LABEL = re.compile(
    r"^[#*\s]*(?:the\s+)?(question|research results?|(?:expert |research )?steps(?: to follow)?|"
    r"expert(?:['\u2019]s)? answer|expert(?:['\u2019]s)? reasoning(?: trace)?)[ \t]*:[*]*[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_REQUEST_START = re.compile(r"\A[^\n]*?\b(?:question|topic or question):\s*", re.IGNORECASE)
_PAGE = re.compile(r"\bpages? (\d+)(?: of |/)(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_LISTING = "nr | member | bytes"
_MEMBER = re.compile(r"^\d+ \| (.+) \| \d+$", re.MULTILINE)
_STOPPED = "[No more tool calls are allowed"


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
        return self._review(chat)

    def _review(self, chat: ChatRequest) -> Reply:
        agent = chat.role.removeprefix("critic_")
        if agent in self.rejected:
            return Reply(
                {"decision": "reject", "feedback": f"The {agent}'s work is not good enough; give its sources."}
            )
        return Reply({"decision": "approve", "feedback": "It does what the request asks."})


def _plan(chat: ChatRequest) -> Reply:
    question = " ".join(_planned_question(chat).split())
    research = [f'Find in the file "{chat.file}" what answers the question "{question}" and report it word for word.']
    return Reply(
        {
            "research_steps": research if chat.file else [],
            "expert_steps": [f'Answer the question "{question}" by the findings, or by a tool if it needs computing.'],
        }
    )


def _planned_question(chat: ChatRequest) -> str:
    """The request without its opening words and without a last paragraph that only names the file."""
    question = _REQUEST_START.sub("", chat.instruction, count=1)
    first, *rest = question.split("\n\n")
    if rest and chat.file and chat.file in rest[-1]:
        rest.pop()
    return "\n\n".join([first, *rest])


def _research(chat: ChatRequest) -> Reply:
    call = _next_reading(chat)
    if call:
        return Reply(calls=(call,))
    read = _text_read(chat.results)
    if not read:
        return Reply({"result": NOT_FOUND})
    excerpt = relevant_excerpt(read, _question_of(chat), MAX_EXCERPT_CHARS)
    return Reply({"result": f"What {chat.file or 'the source'} says: (excerpt begins)\n{excerpt}\n(excerpt ends)"})


def _solve(chat: ChatRequest) -> Reply:
    question = _question_of(chat)
    evidence = _evidence(chat.instruction)
    calls = () if evidence else _next_calculations(chat, question)
    reading = None if evidence or calls else _next_reading(chat)
    if calls or reading:
        return Reply(calls=calls or ((reading,) if reading else ()))
    computed = [_computed(result, question) for result in chat.results if "file" not in result.call.arguments]
    if computed and not evidence:
        answer: str | None = None if None in computed else ", ".join(filter(None, computed))
    else:
        answer = find_answer("\n\n".join([*evidence, _text_read(chat.results)]), question)
    found = "What the tools returned shows it" if answer else "No finding holds it"
    return Reply(
        {"expert_answer": answer or UNKNOWN, "reasoning_trace": f"{found}: the answer is «{answer or UNKNOWN}»."}
    )


def _finalize(chat: ChatRequest) -> Reply:
    labelled = _labelled(chat.instruction)
    noted = _ANSWER.search(labelled.get("reasoning", "")) or _ANSWER.search(chat.instruction)
    answer = labelled.get("answer") or (noted[1] if noted else UNKNOWN)
    return Reply({"final_answer": answer, "final_reasoning_trace": f"The expert found it: the answer is «{answer}»."})


def _next_reading(chat: ChatRequest) -> ToolCall | None:
    """The file first, then the pages that the tool says there are, then an archive's members: those named, else all."""
    tool = _tool_with(chat.tools, "file")
    if tool is None or chat.file is None or _stopped(chat.results):
        return None
    readings = [result for result in chat.results if result.call.name == tool.name]
    if not readings:
        return ToolCall(tool.name, {"file": chat.file})
    last = readings[-1]
    found = None if last.failed or "page" not in tool.parameters else _PAGE.search(last.text)
    if found and int(found[1]) < min(int(found[2]), MAX_PAGES):
        return ToolCall(tool.name, last.call.arguments | {"page": int(found[1]) + 1})
    read = {result.call.arguments.get("member") for result in readings}
    listed = [name for result in readings for name in _listed_members(result)]
    named = [name for name in listed if name in chat.instruction]
    unread = [name for name in named or listed if name not in read and "member" in tool.parameters]
    return (
        ToolCall(tool.name, {"file": chat.file, "member": unread[0]}) if unread and len(read) <= MAX_MEMBERS else None
    )


def _listed_members(result: ToolResult) -> list[str]:
    """Of an archive, from the listing that the tool gives first."""
    if result.failed or result.call.arguments.get("member") or _LISTING not in result.text:
        return []
    return [found.replace("\\|", "|") for found in _MEMBER.findall(result.text.partition(_LISTING)[2])]


def _next_calculations(chat: ChatRequest, question: str) -> tuple[ToolCall, ...]:
    """What the question spells out, all in one turn; nothing if it was done already or no tool for it is offered."""
    if chat.results:
        return ()
    converter, calculator = _tool_with(chat.tools, "to_unit"), _tool_with(chat.tools, "expression")
    if converter and (found := conversions(question)):
        if "quantity" in converter.parameters:
            arguments = [{"quantity": f"{each.value} {each.unit}", "to_unit": each.to_unit} for each in found]
        else:
            arguments = [{"value": each.value, "from_unit": each.unit, "to_unit": each.to_unit} for each in found]
        return tuple(ToolCall(converter.name, each) for each in arguments)
    if calculator:
        return tuple(ToolCall(calculator.name, {"expression": each}) for each in expressions(question))
    return ()


def _computed(result: ToolResult, question: str) -> str | None:
    """The number in `15239`, `Result: 15239` or `12 mile = 19.3 kilometer`."""
    number = None if result.failed else _NUMBER.search(result.text.split(_STOPPED)[0].rpartition("=")[2])
    return in_asked_form(number[0].replace(",", ""), question) if number else None


def _tool_with(tools: Iterable[OfferedTool], parameter: str) -> OfferedTool | None:
    fitting = [tool for tool in tools if parameter in tool.parameters]
    return next((tool for tool in fitting if tool.name.startswith("read")), fitting[0] if fitting else None)


def _stopped(results: Iterable[ToolResult]) -> bool:
    return any(_STOPPED in result.text for result in results)


def _text_read(results: Iterable[ToolResult]) -> str:
    """What the tools returned, without what they say about it: page counts, and headings that each page repeats.

    Amounts in what is said about a file (the length of a sound) are kept; the list of an archive that was read is not.
    """
    read: list[str] = []
    told = list(results)
    opened = any(result.call.arguments.get("member") and not result.failed for result in told)
    for result in told:
        if opened and _listed_members(result):
            continue
        lines = [] if result.failed else result.text.split(_STOPPED)[0].strip().splitlines()
        if lines and _PAGE.search(lines[0]):
            said = [f"{unit}: {amount}" for unit, amount in amounts(lines.pop(0)).items()]
            read += [*said, ""] if said and not set(said) <= set(read) else []
        while read and lines and (not lines[0].strip() or (lines[0] in read and any(map(is_table_line, lines[:2])))):
            del lines[0]
        read += lines
    return "\n".join(read).strip()


def _question_of(chat: ChatRequest) -> str:
    """The question behind a request: as the planner's step restates it, else as labelled, else the whole text."""
    restated = _STEP_QUESTION.findall(chat.instruction)
    labelled = _labelled(chat.instruction).get("question")
    return labelled or (restated[-1] if restated else _REQUEST_START.sub("", chat.instruction, count=1))


def _evidence(request: str) -> list[str]:
    """The excerpts among the research results, else the results as they are, without those that found nothing."""
    excerpts = [_unescaped(text.strip("\n")) for text in _EXCERPT.findall(request)]
    if excerpts:
        return excerpts
    results = _labelled(request).get("results", "")
    told = re.sub(rf"^(?:\d+\.\s*)?(?:{NOT_FOUND}|\(none\)|none|\[\])\.?$", "", results, flags=re.I | re.M).strip()
    return [re.sub(r"\A1\.\s+", "", told)] if told else []


def _unescaped(text: str) -> str:
    """A finding that was rendered inside a list literal has its line ends as `\\n`."""
    if "\n" in text or "\\n" not in text:
        return text
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text)


def _labelled(request: str) -> dict[str, str]:
    """The parts of a request under its labels; what looks like a label inside an excerpt is not one."""
    hidden = _EXCERPT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), request)
    labels = list(_LABEL.finditer(hidden))
    parts: dict[str, str] = {}
    for label, following in zip(labels, [*labels[1:], None], strict=False):
        kind = next(key for key in ("answer", "reasoning", "results", "steps", "question") if key in _kind(label[1]))
        parts.setdefault(kind, request[label.end() : following.start() if following else None].strip())
    return parts


def _kind(label: str) -> str:
    return label.lower().replace("result", "results") if "results" not in label.lower() else label.lower()
