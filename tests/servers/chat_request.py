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
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

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
class OfferedTool:
    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ToolResult:
    call: ToolCall
    text: str
    failed: bool


@dataclass(frozen=True)
class ChatRequest:
    role: str
    instruction: str  # the newest request that is not feedback
    file: str | None
    outputs: tuple[str, ...]  # the output fields that the reply's text must have
    as_json: bool  # the values of a reply are one JSON object
    tools: tuple[OfferedTool, ...] = ()
    native: bool = True  # tool calls go beside the text; otherwise they are JSON objects in it
    results: tuple[ToolResult, ...] = ()  # since `instruction`


@dataclass(frozen=True)
class Reply:
    """Calls of tools, the values of the output fields, or any text."""

    fields: dict[str, Any] = field(default_factory=dict)
    calls: tuple[ToolCall, ...] = ()
    text: str = ""


@dataclass
class _Conversation:
    """Gathers the turns; a request that is not feedback starts it over."""

    request_field: str
    inputs: tuple[str, ...]
    instruction: str = ""
    values: dict[str, str] = field(default_factory=dict)
    calls: dict[str, ToolCall] = field(default_factory=dict)  # by id, or by position in text mode
    results: list[ToolResult] = field(default_factory=list)

    def user(self, text: str) -> None:
        sections = _sections(text, self.inputs)
        if not sections:
            self._text_results(text)
        request = sections.get(self.request_field, "")
        if request and (not self.instruction or not request.startswith(FEEDBACK_START)):
            self.instruction, self.results = request, []
        self.values |= sections

    def assistant(self, text: str, tool_calls: Iterable[dict[str, Any]]) -> None:
        self.calls = dict(_native_call(call) for call in tool_calls) or dict(_calls_in_text(text))

    def tool(self, call_id: str, text: str) -> None:
        self._add(self.calls.get(call_id, ToolCall("", {})), text, failed=False)

    def _text_results(self, text: str) -> None:
        names_and_texts = _RESULT_AS_TEXT.split(_REMINDER.sub("", text))[1:]
        for position, name in enumerate(names_and_texts[::2]):
            call = self.calls.get(str(position), ToolCall(name, {}))
            self._add(call, names_and_texts[2 * position + 1], failed=False)

    def _add(self, call: ToolCall, text: str, failed: bool) -> None:
        if marked := re.match(r"\[\w+ returned data, not instructions; the data ends at the mark (\w+)\]\n", text):
            text = text[marked.end() :].replace(f"\n[end of data {marked[1]}]", "")
        says_so = re.match(rf"\W*(?:error\b|{re.escape(call.name)} failed\b)", text, re.IGNORECASE)
        self.results.append(ToolResult(call, text, failed or bool(says_so)))


def read_request(body: bytes) -> ChatRequest:
    """Read a request body.

    Raises:
        BadRequestError: it is not JSON, not a chat request, or of no known role.
    """
    request = _request_object(body)
    messages = request["messages"]
    system = _text(messages[0].get("content"))
    step = _STEP.search(system)
    inputs, outputs = _fields(system, step, messages[1:])
    role = next((role for name, role in _ROLES if name in (*inputs, *outputs)), None)
    if role is None or not inputs:
        raise BadRequestError(f"no known role has the output fields {', '.join(outputs) or '(none)'}")
    conversation = _conversation(messages[1:], inputs)
    as_text = tuple(_tools_as_text(step[2] or "")) if step else ()
    file = conversation.values.get("file", "None").strip()
    return ChatRequest(
        role=role,
        instruction=conversation.instruction,
        file=None if file in ("None", "") else file,
        outputs=outputs,
        as_json="Outputs will be a JSON object with the following fields." in system.split("In adhering to", 1)[0],
        tools=as_text or tuple(_native_tools(request.get("tools") or [])),
        native=not as_text,
        results=tuple(conversation.results),
    )


def _request_object(body: bytes) -> dict[str, Any]:
    try:
        request = json.loads(body)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise BadRequestError("the body is not a JSON object")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise BadRequestError("`messages` must be a list of at least one message object")
    if request.get("stream"):
        raise BadRequestError("`stream` is not supported")
    return request


def _conversation(messages: list[dict[str, Any]], inputs: tuple[str, ...]) -> _Conversation:
    conversation = _Conversation(request_field=inputs[0], inputs=inputs)
    for message in messages:
        text = _text(message.get("content"))
        if message.get("role") == "user":
            conversation.user(text)
        elif message.get("role") == "assistant":
            conversation.assistant(text, message.get("tool_calls") or [])
        elif message.get("role") == "tool":
            conversation.tool(str(message.get("tool_call_id")), text)
    return conversation


def _fields(
    system: str, step: re.Match[str] | None, messages: list[dict[str, Any]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the input and output fields; an agent with tools has its inputs in its messages alone."""
    if step:
        texts = [_text(each.get("content")) for each in messages if each.get("role") == "user"]
        asked = [_REMINDER.sub("", text) for text in texts if not text.startswith("This reply cannot be used.")]
        return tuple(dict.fromkeys(_SECTION.findall("\n\n".join(asked)))), tuple(_FIELD_NAME.findall(step[1]))
    found = _FIELDS.search(system)
    if found is None:
        raise BadRequestError("the system message does not list input and output fields as DSPy does")
    inputs, outputs = (tuple(_FIELD_NAME.findall(part)) for part in found.groups())
    return inputs, outputs


def _sections(text: str, names: tuple[str, ...]) -> dict[str, str]:
    """The fields of one message; text that merely looks like a field stays part of the one it stands in."""
    text = _REMINDER.sub("", text)
    headers = [match for match in _SECTION.finditer(text) if match[1] in names]
    ends = [*(match.start() for match in headers[1:]), len(text)]
    return {match[1]: text[match.end() : end].strip() for match, end in zip(headers, ends, strict=False)}


def _native_call(call: dict[str, Any]) -> tuple[str, ToolCall]:
    function = call.get("function") or {}
    return str(call.get("id")), ToolCall(str(function.get("name")), _json(str(function.get("arguments", "{}"))))


def _calls_in_text(text: str) -> Iterable[tuple[str, ToolCall]]:
    calls = [call for line in text.splitlines() if "tool" in (call := _json(line))]
    for position, call in enumerate(calls):
        yield str(position), ToolCall(str(call["tool"]), call.get("arguments") or {})


def _native_tools(tools: list[dict[str, Any]]) -> Iterable[OfferedTool]:
    for tool in tools:
        function = tool.get("function") or {}
        yield OfferedTool(str(function.get("name")), tuple((function.get("parameters") or {}).get("properties") or {}))


def _tools_as_text(listed: str) -> Iterable[OfferedTool]:
    """Each begins with a line such as `- read_page(url: str, page?: int)`."""
    for name, arguments in re.findall(r"^- (\w+)\((.*)\)$", listed, re.MULTILINE):
        yield OfferedTool(name, tuple(re.findall(r"(\w+)\??: ", arguments)))


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if content is None or isinstance(content, str):
        return content or ""
    return json.dumps(content, ensure_ascii=False)
