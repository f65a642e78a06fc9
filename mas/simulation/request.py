"""What a request says, read from its text alone: who is asked, in which format, with which tools, after which turns.

The formats read are those of DSPy's ChatAdapter and JSONAdapter, with native tool calls or with tools as text. Worked
examples that are conversations say so at the top of each of their requests (`mas/agents/chat_adapter.py`).

    chat = read_chat(request)
    chat.role                   # "researcher"
    chat.request                # "Research the following topic or question: …"
    chat.results[0].text        # what the first tool call returned
"""

import inspect
import json
import re
from dataclasses import dataclass, field
from typing import Any

from dspy.lm15 import Message, Request, ToolCallPart, ToolResultPart

from mas.prompt_sets.demos import EXAMPLE
from mas.runtime.untrusted import remove_label
from mas.simulation.skills.skills import Role

# The fields that tell one agent from all others, and the field that holds what the agent is asked ("": the first).
_ROLES: tuple[tuple[frozenset[str], Role, str], ...] = (
    (frozenset({"problem_and_steps"}), "toy_solve", "problem_and_steps"),
    (frozenset({"result_to_finalize"}), "toy_finalize", "result_to_finalize"),
    (frozenset({"problem", "steps"}), "toy_plan", "problem"),
    (frozenset({"research_steps"}), "planner", "request"),
    (frozenset({"plan_to_review"}), "critic_planner", "plan_to_review"),
    (frozenset({"research_to_review"}), "critic_researcher", "research_to_review"),
    (frozenset({"answer_to_review"}), "critic_expert", "answer_to_review"),
    (frozenset({"answer_request", "final_answer"}), "finalizer", "answer_request"),
    (frozenset({"expert_answer"}), "expert", "expert_request"),
    (frozenset({"research_request", "result"}), "researcher", "research_request"),
    (frozenset({"final_answer"}), "single", ""),
)
_EXAMPLE = EXAMPLE.removesuffix(".")  # DSPy's own line for an incomplete example goes on after it
_FEEDBACK = "Use the following feedback"
_NO_QUESTION = ("file", "history", "tools", "tool_call_results")
_MARKER = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*", re.MULTILINE)
_FIELD_LINE = re.compile(r"^\d+\. `(\w+)` \((.*)\)", re.MULTILINE)
_REMINDER = re.compile(
    r"^Respond with (?:the corresponding output fields|a JSON object)\b.*\Z", re.MULTILINE | re.DOTALL
)
_TOOL_AS_TEXT = re.compile(r"(\w+), whose description is")


@dataclass(frozen=True)
class ToolResult:
    """One call of the conversation with what came back."""

    name: str
    arguments: dict[str, Any]
    text: str


@dataclass
class Turn:
    """One request of the conversation, the tools used for it, and its reply (empty while it is open)."""

    inputs: dict[str, str]
    results: list[ToolResult] = field(default_factory=list)
    reply: dict[str, str] = field(default_factory=dict)
    example: bool = False  # says of itself that it is one


@dataclass(frozen=True)
class Chat:
    """A request as the simulated model sees it."""

    role: Role | None  # None: the request is none of the known agents'
    outputs: dict[str, str]  # field name to its type, in the order asked for
    wants_json: bool
    tools: frozenset[str]
    native_tools: bool
    turns: tuple[Turn, ...]  # at least one; the last is the one to answer
    prompt: str  # the instructions
    demos: tuple[Turn, ...]  # worked examples before the conversation
    seed: int | None  # the sample id

    @property
    def occasion(self) -> str:
        """What is asked, free of format and tool results: the same under every adapter and at every step of a turn."""
        turns = [
            [{name: text for name, text in turn.inputs.items() if name not in _NO_QUESTION[1:]}, turn.reply]
            for turn in self.turns
        ]
        turns[-1][1] = {}
        return json.dumps([self.role, turns], ensure_ascii=False)

    @property
    def request(self) -> str:
        """What the agent is asked now; in a feedback turn, the feedback."""
        return self._asked(self.turns[-1])

    @property
    def first_request(self) -> str:
        """What the agent was asked before any feedback."""
        return self._asked(self.turns[0])

    @property
    def file(self) -> str | None:
        """The bare name of the attachment, from the newest turn that names one."""
        for turn in reversed(self.turns):
            name = turn.inputs.get("file", "")
            if name and name != "None":
                return name
        return None

    @property
    def results(self) -> list[ToolResult]:
        """Everything that tools returned in this conversation, in order."""
        return [result for turn in self.turns for result in turn.results]

    def _asked(self, turn: Turn) -> str:
        key = next((key for _, role, key in _ROLES if role == self.role), "")
        texts = [text for name, text in turn.inputs.items() if name not in _NO_QUESTION]
        return turn.inputs.get(key) or (texts[0] if texts and self.role == "single" else "\n\n".join(texts))


def read_chat(request: Request) -> Chat:
    """Everything the roles need to know; never fails on text that it does not understand."""
    system = _system_text(request)
    head, _, tail = system.partition("Your output fields are:")
    outputs = dict(_FIELD_LINE.findall(tail.partition("All interactions will be structured")[0]))
    inputs = dict(_FIELD_LINE.findall(head))
    role = next((role for names, role, _ in _ROLES if names <= outputs.keys() | inputs.keys()), None)
    demos, turns = _parted(_turns(request.messages))
    tools = {tool.name for tool in request.tools}
    for turn in turns:
        tools.update(_TOOL_AS_TEXT.findall(turn.inputs.get("tools", "")))
    return Chat(
        role=role,
        outputs=outputs,
        wants_json="Outputs will be a JSON object with the following fields." in tail,
        tools=frozenset(tools),
        native_tools=bool(request.tools),
        turns=turns,
        prompt=_instructions(system),
        demos=demos,
        seed=request.config.seed,
    )


def request_text(request: Request) -> str:
    """All text of a request in one string: what is hashed and what is counted as input."""
    parts = [_system_text(request)]
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                parts.append(f"{part.name} {json.dumps(part.input, sort_keys=True)}")
            elif isinstance(part, ToolResultPart):
                parts.append(_result_text(part))
            else:
                parts.append(getattr(part, "text", None) or "")
    parts.extend(f"{tool.name} {getattr(tool, 'description', '')}" for tool in request.tools)
    return "\n".join(parts)


def marked_fields(text: str) -> dict[str, str]:
    """The `[[ ## name ## ]]` sections of a message, or the keys of a JSON object; the first of equal names counts."""
    sections = _MARKER.split(_REMINDER.sub("", text))
    fields: dict[str, str] = {}
    for name, value in zip(sections[1::2], sections[2::2], strict=True):
        fields.setdefault(name, value.strip())
    if not fields and text.lstrip().startswith("{"):
        try:
            fields = {str(key): _as_text(value) for key, value in json.loads(text).items()}
        except ValueError:
            return {}
    fields.pop("completed", None)
    return fields


def _system_text(request: Request) -> str:
    if isinstance(request.system, str):
        return request.system
    return "".join(getattr(part, "text", "") for part in request.system or ())


def _turns(messages: tuple[Message, ...]) -> list[Turn]:
    turns: list[Turn] = []
    calls: dict[str, ToolCallPart] = {}
    for message in messages:
        fields = marked_fields(message.text or "")
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                calls[part.id] = part
            elif isinstance(part, ToolResultPart) and turns:
                turns[-1].results.append(_native_result(part, calls))
        if message.role == "user":
            _read_user(turns, fields, (message.text or "").startswith(_EXAMPLE))
        elif message.role == "assistant" and turns:
            turns[-1].reply.update(fields)
    return turns or [Turn({"request": _bare_text(messages)})]


def _bare_text(messages: tuple[Message, ...]) -> str:
    """The plain text of messages that carry no field markers at all."""
    return "\n".join(message.text or "" for message in messages)


def _read_user(turns: list[Turn], fields: dict[str, str], example: bool) -> None:
    asked = {name: value for name, value in fields.items() if name not in ("tools", "tool_call_results")}
    if asked:
        turns.append(Turn(dict(fields), example=example))
    elif turns:
        turns[-1].inputs.update({"tools": fields["tools"]} if "tools" in fields else {})
        turns[-1].results.extend(_text_results(turns[-1], fields.get("tool_call_results", "")))


def _text_results(turn: Turn, text: str) -> list[ToolResult]:
    """Results that came as text, each paired with its call in the reply before it."""
    results = _json_list(text, "tool_call_results")
    calls = _json_list(turn.reply.get("tool_calls", ""), "tool_calls")
    arguments = [call.get("args", {}) for call in calls] + [{}] * len(results)
    return [
        ToolResult(str(result.get("name")), arguments[index], remove_label(_as_text(result.get("value", ""))))
        for index, result in enumerate(results)
    ]


def _native_result(part: ToolResultPart, calls: dict[str, ToolCallPart]) -> ToolResult:
    call = calls.get(part.id)
    text = remove_label(_result_text(part))
    return ToolResult(part.name or (call.name if call else ""), dict(call.input) if call else {}, text)


def _result_text(part: ToolResultPart) -> str:
    return "".join(getattr(content, "text", None) or "" for content in part.content)


def _json_list(text: str, key: str) -> list[dict[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError:
        return []
    items = value.get(key, []) if isinstance(value, dict) else value
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parted(turns: list[Turn]) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """The worked examples (demos), and the turns since the newest request that is not feedback.

    Not every example says that it is one; none stands after the real conversation has begun.
    """
    first = max((index for index, turn in enumerate(turns[:-1], 1) if turn.example), default=0)
    for index in range(len(turns) - 1, first, -1):
        if not any(value.startswith(_FEEDBACK) for value in turns[index].inputs.values()):
            return tuple(turns[:index]), tuple(turns[index:])
    return tuple(turns[:first]), tuple(turns[first:])


def _instructions(system: str) -> str:
    """What DSPy's adapters call the objective; the whole text if it is no such message."""
    _, found, text = system.partition("In adhering to this structure, your objective is:")
    return inspect.cleandoc(text) if found else system
