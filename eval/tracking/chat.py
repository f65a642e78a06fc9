"""A request to a model and its reply in the form that MLflow's page shows as a conversation: OpenAI's chat completions.

Records hold both as DSPy's engine does: messages made of parts, the system prompt apart. MLflow's page takes a message
only with a `content` that is a text, and tool calls only with texts for id, name and arguments.

    chat_request({"system": "Be brief.", "messages": [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}]})
    # {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MESSAGE_FORMAT = "openai"  # MLflow's name for it, the value of mlflow.message.format
_ROLES = {"developer": "system"}
_APART = ("system", "messages", "tools")


def chat_request(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The span's inputs; what is neither message nor tool (temperature and the like) stays as it is."""
    system = inputs.get("system")
    first = [{"role": "system", "content": _content(system)}] if system else []
    messages = [each for message in inputs.get("messages") or [] for each in _messages(message)]
    tools = [_tool(tool) for tool in inputs.get("tools") or []]
    rest = {key: value for key, value in inputs.items() if key not in _APART}
    return {"messages": [*first, *messages], **({"tools": tools} if tools else {}), **rest}


def chat_reply(outputs: Mapping[str, Any], finish_reason: Any) -> dict[str, Any]:
    """The span's outputs; empty if there was no reply."""
    if "parts" not in outputs:
        return dict(outputs)
    message = next(iter(_messages(outputs)), {"role": "assistant", "content": ""})
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


def _messages(message: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """One message; or one for each tool result in it, as OpenAI's form has them."""
    if "parts" not in message:
        yield {"role": _role(message), "content": _content(message.get("content"))}
        return
    parts = message["parts"]
    for part in parts:
        if part.get("type") == "tool_result":
            yield {"role": "tool", "tool_call_id": str(part.get("id", "")), "content": _content(part.get("content"))}
    said = [part for part in parts if part.get("type") not in ("tool_call", "tool_result", "thinking")]
    calls = [_call(part) for part in parts if part.get("type") == "tool_call"]
    thoughts = _content([part for part in parts if part.get("type") == "thinking"])
    if said or calls or thoughts:
        yield {
            "role": _role(message),
            "content": _content(said),
            **({"reasoning_content": thoughts} if thoughts else {}),
            **({"tool_calls": calls} if calls else {}),
        }


def _role(message: Mapping[str, Any]) -> str:
    role = str(message.get("role", "user"))
    return _ROLES.get(role, role)


def _content(value: Any) -> str:
    """A text, whatever the parts are; a picture or sound as a word about it."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Sequence):
        return "\n".join(_content(part) for part in value)
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return str(value["text"])
    if isinstance(value, Mapping) and "media_type" in value:
        where = value.get("data") or value.get("url") or value.get("path") or ""
        return f"[{value.get('type')} {value['media_type']}: {str(where)[:200]}]"
    return json.dumps(value, ensure_ascii=False, default=str)


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    given = part.get("input")
    arguments = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False, default=str)
    function = {"name": str(part.get("name", "")), "arguments": arguments}
    return {"id": str(part.get("id", "")), "type": "function", "function": function}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        return dict(tool)
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
