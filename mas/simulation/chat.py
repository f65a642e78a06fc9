"""Requests and replies as the simulated model sees them, read from the request's text alone.

Understands DSPy's ChatAdapter and JSONAdapter, and `mas/agents/tool_adapter.py` with native calls and with text.
"""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dspy.lm15 import Message, Request, Response, TextPart, ToolCallPart, ToolResultPart, Usage

from mas.runtime.untrusted import remove_marks

# Role → field with its request ("": the first), fields that identify it; the first match wins.
_ROLES: dict[str, tuple[str, ...]] = {
    "toy_solve": ("problem_and_steps",),
    "toy_finalize": ("result_to_finalize",),
    "toy_plan": ("problem", "steps"),
    "toy_conclude": ("problem", "working", "answer"),  # to the tickets: of the tutorial
    "toy_work": ("problem", "working"),
    "toy_ticket": ("", "title", "body", "category"),
    "bos_planner": ("question_to_plan",),
    "bos_tables": ("question_for_tables",),
    "bos_query": ("question_for_query",),
    "bos_review": ("question_of_query", "query_to_review"),
    "bos_rows": ("question_about_rows",),
    "bos_call": ("question_for_api",),
    "bos_adjustment": ("question_of_refused_call", "refused_plan"),
    "bos_reply": ("question_about_reply",),
    "bos_code": ("computation_question",),
    "bos_outcome": ("computation_to_summarize",),
    "bos_composer": ("question_to_answer", "agent_summaries"),
    "planner": ("request", "research_steps"),
    "critic_planner": ("plan_to_review",),
    "critic_researcher": ("research_to_review",),
    "critic_expert": ("answer_to_review",),
    "finalizer": ("answer_request", "final_answer"),
    "expert": ("expert_request", "expert_answer"),
    "researcher": ("research_request", "result"),
    "single": ("", "final_answer"),  # one agent that does everything
}
_FEEDBACK = "Use the following feedback"
_NO_QUESTION = ("file", "history", "tools")
_MARKER = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*", re.MULTILINE)
_FIELD_LINE = re.compile(r"^\d+\. `(\w+)` \((.*)\)", re.MULTILINE)
_REMINDER = re.compile(
    r"^Respond with (?:the corresponding output fields|a JSON object|a tool call now|your output fields)\b.*\Z",
    re.MULTILINE | re.DOTALL,
)
_OBJECTIVE = "In adhering to this structure, your objective is:"
_STEP = "\n\nDo one of two things."  # ends the instructions of an agent with tools
_TOOL_AS_TEXT = re.compile(r"^- (\w+)\(", re.MULTILINE)
_RESULT_AS_TEXT = re.compile(r"^Result of (\w+):\n", re.MULTILINE)
_AGAIN = "This reply cannot be used."
_CHARS_PER_TOKEN = 4
Call = tuple[str, dict[str, object]]  # name and arguments of a tool call
Reply = dict[str, object]  # values for the output fields


class ToolNeeded(Exception):
    """A role cannot go on before a tool call; the arguments are the call's name and arguments."""


@dataclass(frozen=True)
class ToolResult:
    """One tool call of the conversation and its result."""

    name: str
    arguments: dict[str, object]
    text: str

    @property
    def is_failure(self) -> bool:
        return self.text.startswith((f"{self.name} failed", "Error"))


@dataclass
class Turn:
    """One request of the conversation, the tools used for it, and its reply (empty: still open)."""

    inputs: dict[str, str]
    results: list[ToolResult] = field(default_factory=list)
    reply: dict[str, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)  # of the newest reply, if they came as text


@dataclass(frozen=True)
class Chat:
    """A request as the simulated model sees it."""

    role: str  # empty: not one of the known agents
    outputs: dict[str, str]  # field name to its type, in the order asked for
    wants_json: bool
    is_repeated: bool  # the last reply could not be read
    tools: frozenset[str]
    native_tools: bool
    turns: Sequence[Turn]  # at least one; the last is the one to answer
    prompt: str  # the instructions
    demos: Sequence[Turn]  # worked examples before the conversation
    seed: int | None  # DSPy's seed of the request

    @cached_property
    def decision_key(self) -> str:
        """The requests without format and tool results: equal for all adapters and steps of a turn."""
        return json.dumps([self.role, [self._read_request(turn) for turn in self.turns]], ensure_ascii=False)

    @property
    def request(self) -> str:
        """The current request; in a feedback turn, the feedback."""
        return self._read_request(self.turns[-1])

    @property
    def first_request(self) -> str:
        return self._read_request(self.turns[0])

    @property
    def file(self) -> str | None:
        names = (turn.inputs.get("file", "") for turn in reversed(self.turns))
        return next((name for name in names if name and name != "None"), None)

    @property
    def results(self) -> list[ToolResult]:
        return [result for turn in self.turns for result in turn.results]

    @property
    def must_answer(self) -> bool:
        return any("No more tool calls" in result.text for result in self.turns[-1].results)

    @property
    def revision_note(self) -> str:
        """Mark of repeated work: without it the critic would see the same text and decide the same."""
        return f" (done again, revision {len(self.turns) - 1})" if len(self.turns) > 1 else ""

    def _read_request(self, turn: Turn) -> str:
        texts = [text for name, text in turn.inputs.items() if name not in _NO_QUESTION]
        whole = texts[0] if texts and self.role == "single" else "\n\n".join(texts)
        return turn.inputs.get(_ROLES.get(self.role, ("",))[0]) or whole


def read_chat(request: Request) -> Chat:
    """Parse a request; text in an unknown format is kept as it is."""
    system = join_system(request)
    head, _, tail = system.partition("Your output fields are:")
    described = re.split("All interactions will be structured|\n\nYour tools are:\n", tail)
    outputs = dict(_FIELD_LINE.findall(described[0]))
    turns = _read_turns(request.messages)
    fields = outputs.keys() | dict(_FIELD_LINE.findall(head)).keys()
    # Worked examples come first: the conversation begins with the newest request that is no feedback.
    begins = [not any(text.startswith(_FEEDBACK) for text in turn.inputs.values()) for turn in turns]
    first = max((index for index, begin in enumerate(begins) if begin), default=0)
    fields |= turns[first].inputs.keys()
    wants_json = "Outputs will be a JSON object with the following fields." in tail
    as_text = set(_TOOL_AS_TEXT.findall(tail)) if _STEP in head else set()
    if _STEP in system:
        prompt = system.rpartition(_STEP)[0]
    else:
        _, found, objective = system.partition(_OBJECTIVE)
        prompt = inspect.cleandoc(objective) if found else system
    return Chat(
        role=next((role for role, names in _ROLES.items() if {*names} - {""} <= fields), ""),
        outputs=outputs,
        wants_json=wants_json,
        is_repeated=wants_json or (request.messages[-1].text or "").startswith(_AGAIN),
        tools=frozenset({tool.name for tool in request.tools} | as_text),
        native_tools=bool(request.tools),
        turns=turns[first:],
        prompt=prompt,
        demos=turns[:first],
        seed=request.config.seed,
    )


def join_system(request: Request) -> str:
    if isinstance(request.system, str):
        return request.system
    return "".join(map(_read_text, request.system or ()))


def create_response(request: Request, parts: Sequence[TextPart | ToolCallPart]) -> Response:
    """Return a reply of these parts, with its tokens counted."""
    asked = [_read_text(part) for message in request.messages for part in message.parts]
    tools = [f"{tool.name} {getattr(tool, 'description', '')}" for tool in request.tools]
    read, written = _count_tokens([join_system(request), *asked, *tools]), _count_tokens(map(_read_text, parts))
    return Response(
        id=None,
        model=request.model,
        message=Message.assistant(list(parts)),
        finish_reason="tool_call" if any(isinstance(part, ToolCallPart) for part in parts) else "stop",
        usage=Usage(input_tokens=read, output_tokens=written, total_tokens=read + written),
    )


def _count_tokens(texts: Iterable[str]) -> int:
    return -(-sum(map(len, texts)) // _CHARS_PER_TOKEN)


def parse_fields(text: str) -> dict[str, str]:
    """Return the `[[ ## name ## ]]` sections, or a JSON object's keys; of equal names the first."""
    sections = _MARKER.split(_REMINDER.sub("", text))
    fields: dict[str, str] = {}
    for name, value in zip(sections[1::2], sections[2::2], strict=True):
        fields.setdefault(name, value.strip())
    if not fields and text.lstrip().startswith("{"):
        try:
            fields = {str(key): _to_text(value) for key, value in json.loads(text).items()}
        except ValueError:
            return {}
    fields.pop("completed", None)
    return fields


def format_fields(values: dict[str, object]) -> str:
    """Return the fields as DSPy's ChatAdapter reads them."""
    sections = {**values, "completed": ""}.items()
    return "\n\n".join(f"[[ ## {name} ## ]]\n{_to_text(value)}" for name, value in sections)


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_text(part: object) -> str:
    """Return the text of a part, of a tool call its arguments."""
    if isinstance(part, ToolCallPart):
        return json.dumps(part.input)
    if isinstance(part, ToolResultPart):
        return "".join(map(_read_text, part.content))
    return getattr(part, "text", None) or ""


def _read_turns(messages: Sequence[Message]) -> list[Turn]:
    turns: list[Turn] = []
    calls: dict[str, ToolCallPart] = {}
    for message in messages:
        text = message.text or ""
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                calls[part.id] = part
            elif isinstance(part, ToolResultPart) and turns:
                arguments = dict(calls[part.id].input) if part.id in calls else {}
                turns[-1].results.append(ToolResult(part.name or "", arguments, remove_marks(_read_text(part))))
        if message.role == "user" and not text.startswith(_AGAIN):
            if fields := parse_fields(text):
                turns.append(Turn(fields))
            elif turns:
                turns[-1].results.extend(_read_text_results(turns[-1], text))
        elif message.role == "assistant" and turns:
            turns[-1].calls = _read_text_calls(text)
            turns[-1].reply.update({} if turns[-1].calls else parse_fields(text))
    return turns or [Turn({"request": "\n".join(message.text or "" for message in messages)})]


def _read_text_results(turn: Turn, text: str) -> Iterator[ToolResult]:
    """Yield results that came as text, each paired with its call in the reply before it."""
    names_and_texts = _RESULT_AS_TEXT.split(_REMINDER.sub("", text))[1:]
    for index, name in enumerate(names_and_texts[::2]):
        arguments = turn.calls[index][1] if index < len(turn.calls) else {}
        yield ToolResult(name, arguments, remove_marks(names_and_texts[2 * index + 1].strip()))


def _read_text_calls(text: str) -> list[Call]:
    calls = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("arguments"), dict):
            calls.append((str(value.get("tool")), value["arguments"]))
    return calls
