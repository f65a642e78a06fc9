"""The model's reply as an OpenAI chat completion, in the format that the request asks for.

completion(chat, Reply({"result": "…"}), "any", body)["choices"][0]["finish_reason"]   # "stop"
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tests.servers.chat_request import ChatRequest, ToolCall

CHARS_PER_TOKEN = 4  # a rough count, as for English


@dataclass(frozen=True)
class Reply:
    """Either calls of tools or the values of the output fields."""

    fields: dict[str, Any] = field(default_factory=dict)
    calls: tuple[ToolCall, ...] = ()


def completion(chat: ChatRequest, reply: Reply, model: str, body: bytes) -> dict[str, Any]:
    """The response object. It depends on the request alone: ids are made from its bytes, and `created` is 0."""
    digest = hashlib.sha256(body).hexdigest()[:16]
    message = _message(chat, reply, digest)
    written = len(json.dumps(message, ensure_ascii=False))
    prompt_tokens, completion_tokens = len(body) // CHARS_PER_TOKEN, written // CHARS_PER_TOKEN
    return {
        "id": f"chatcmpl-{digest}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _message(chat: ChatRequest, reply: Reply, digest: str) -> dict[str, Any]:
    if reply.calls and chat.native:
        return {"role": "assistant", "content": None, "tool_calls": _native_calls(reply.calls, digest)}
    if reply.calls:
        lines = [{"tool": call.name, "arguments": call.arguments} for call in reply.calls]
        return {"role": "assistant", "content": "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)}
    values = {name: reply.fields.get(name, "") for name in chat.outputs}
    return {"role": "assistant", "content": _content(chat, values)}


def _native_calls(calls: tuple[ToolCall, ...], digest: str) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{digest}_{position}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for position, call in enumerate(calls)
    ]


def _content(chat: ChatRequest, values: dict[str, Any]) -> str:
    if chat.as_json:
        return json.dumps(values, ensure_ascii=False)
    sections = [
        f"[[ ## {name} ## ]]\n{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in values.items()
    ]
    return "\n\n".join([*sections, "[[ ## completed ## ]]"])
