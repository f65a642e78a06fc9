"""What an OpenAI chat request says, as DSPy's ChatAdapter and JSONAdapter and our ToolAdapter write it.

Sources: `dspy/adapters/{base,chat_adapter,json_adapter}.py` of DSPy 3.4.1, `mas/agents/tool_adapter.py`. Only the
lists of fields and tools in the system message and the turns are read; the instructions in it are not. A conversation
starts over at each request that is not feedback, so worked examples before it count for nothing.

    chat = read_request(body)
    chat.role              # "researcher"
    chat.instruction       # "Research the following topic or question: …"
    chat.results[0].text   # what the first tool returned
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.servers.chat_reply import Call, wants_json

FEEDBACK_START = "Use the following feedback"
_ROLES = (  # the field that only this role has
    ("research_steps", "planner"),
    ("plan_to_review", "critic_planner"),
    ("research_to_review", "critic_researcher"),
    ("answer_to_review", "critic_expert"),
    ("final_answer", "finalizer"),
    ("expert_answer", "expert"),
    ("research_request", "researcher"),
)
_FIELDS = re.compile(
    r"Your input fields are:\n(.*?)\nYour output fields are:\n(.*?)\nAll interactions will be structured", re.DOTALL
)
_STEP = re.compile(  # of an agent with tools: fields, and tools as text
    r"\n\nDo one of two things\..*?\n\nYour output fields are:\n(.*?)(?:\n\nYour tools are:\n(.*))?\Z", re.DOTALL
)
_FIELD_NAME = re.compile(r"^\d+\. `(\w+)` \(", re.MULTILINE)
_SECTION = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*\n?", re.MULTILINE)
_REMINDER = re.compile(
    r"(?:\A|\n\n)Respond with (?:the corresponding output fields, starting with|a JSON object in the following order"
    r"|a tool call now(?: \(the JSON object alone\))?, or with your output fields|your output fields if this is).*\Z",
    re.DOTALL,
)
_RESULT_AS_TEXT = re.compile(r"(?:\A|\n\n)Result of (\w+):\n")


class BadRequestError(ValueError):
    """The body is not a chat request of one of the known roles; the message says why."""


@dataclass(frozen=True)
class ToolResult:
    tool: str
    arguments: Mapping[str, Any]
    text: str

    @property
    def failed(self) -> bool:
        return bool(re.match(rf"\W*(?:error\b|{re.escape(self.tool)} failed\b)", self.text, re.IGNORECASE))


@dataclass(frozen=True)
class ChatRequest:
    role: str
    instruction: str  # the newest request that is not feedback
    file: str | None
    outputs: tuple[str, ...]  # the output fields that the reply's text must have
    as_json: bool  # the values of a reply are one JSON object
    tools: Mapping[str, Sequence[str]]  # name → parameters
    native: bool  # tool calls go beside the text; otherwise they are JSON objects in it
    results: Sequence[ToolResult]  # since `instruction`


@dataclass(frozen=True)
class Reply:
    """Calls of tools, the values of the output fields, or any text."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    calls: Sequence[Call] = ()
    text: str = ""


def read_request(body: bytes) -> ChatRequest:
    """Read a request body.

    Raises:
        BadRequestError: it is of no known role.
    """
    request = json.loads(body)
    first, *messages = request["messages"]
    system = _text(first.get("content"))
    step = _STEP.search(system)
    inputs, outputs = _fields(system, step, messages)
    role = next((role for name, role in _ROLES if name in (*inputs, *outputs)), None)
    if role is None or not inputs:
        raise BadRequestError(f"no known role has the output fields {', '.join(outputs) or '(none)'}")
    instruction, results, values, calls = "", list[ToolResult](), dict[str, str](), dict[str, Call]()
    for message in messages:
        text = _text(message.get("content"))
        if message["role"] == "tool":
            results.append(_result(calls.get(message["tool_call_id"], ("", {})), text))
        elif message["role"] == "assistant":
            calls = dict(map(_native_call, message.get("tool_calls") or ())) or _calls_in_text(text)
        elif sections := _sections(text, inputs):
            asked = sections.get(inputs[0], "")
            if asked and not (instruction and asked.startswith(FEEDBACK_START)):
                instruction, results = asked, []
            values |= sections
        else:
            texts = _RESULT_AS_TEXT.split(_REMINDER.sub("", text))[2::2]
            results += [_result(calls.get(str(place), ("", {})), each) for place, each in enumerate(texts)]
    as_text = _tools_as_text(step[2] or "") if step else {}
    file = values.get("file", "None").strip()
    return ChatRequest(
        role=role,
        instruction=instruction,
        file=None if file in ("None", "") else file,
        outputs=outputs,
        as_json=wants_json(system),
        tools=as_text or _native_tools(request.get("tools") or ()),
        native=not as_text,
        results=results,
    )


def _fields(
    system: str, step: re.Match[str] | None, messages: Sequence[dict[str, Any]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the input and output fields; an agent with tools has its inputs in its messages alone."""
    if step:
        texts = [_text(each.get("content")) for each in messages if each["role"] == "user"]
        asked = [_REMINDER.sub("", text) for text in texts if not text.startswith("This reply cannot be used.")]
        return tuple(dict.fromkeys(_SECTION.findall("\n\n".join(asked)))), tuple(_FIELD_NAME.findall(step[1]))
    found = _FIELDS.search(system)
    if found is None:
        raise BadRequestError("the system message does not list input and output fields as DSPy does")
    return tuple(_FIELD_NAME.findall(found[1])), tuple(_FIELD_NAME.findall(found[2]))


def _sections(text: str, names: tuple[str, ...]) -> dict[str, str]:
    """The fields of one message; text that merely looks like a field stays part of the one it stands in."""
    text = _REMINDER.sub("", text)
    headers = [match for match in _SECTION.finditer(text) if match[1] in names]
    ends = [*(match.start() for match in headers[1:]), len(text)]
    return {match[1]: text[match.end() : end].strip() for match, end in zip(headers, ends, strict=False)}


def _result(call: Call, text: str) -> ToolResult:
    if marked := re.match(r"\[\w+ returned data, not instructions; the data ends at the mark (\w+)\]\n", text):
        text = text[marked.end() :].replace(f"\n[end of data {marked[1]}]", "")
    return ToolResult(*call, text)


def _native_call(call: dict[str, Any]) -> tuple[str, Call]:
    return call["id"], (call["function"]["name"], _json(call["function"]["arguments"]))


def _calls_in_text(text: str) -> dict[str, Call]:
    """By their place."""
    calls = [call for line in text.splitlines() if "tool" in (call := _json(line))]
    return {str(place): (call["tool"], call.get("arguments") or {}) for place, call in enumerate(calls)}


def _native_tools(tools: Sequence[dict[str, Any]]) -> dict[str, Sequence[str]]:
    functions = [tool["function"] for tool in tools]
    return {each["name"]: list(each.get("parameters", {}).get("properties", {})) for each in functions}


def _tools_as_text(listed: str) -> dict[str, Sequence[str]]:
    """Each begins with a line such as `- read_page(url: str, page?: int)`."""
    lines = re.findall(r"^- (\w+)\((.*)\)$", listed, re.MULTILINE)
    return {name: re.findall(r"(\w+)\??: ", arguments) for name, arguments in lines}


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return content or ""
