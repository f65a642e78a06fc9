"""A loopback model that makes the tool calls which its question lists, and then answers 7.

with running(CallingModel()) as server:
    calling("q1", ("tavily_tool", {"query": "lighthouse"}))      # a row of a dataset
    f"model.base_url={server.base_url}/v1"
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from tests.eval.command_line import question
from tests.servers.loopback import HANG, Answer, Asked, LoopbackServer

_BEGIN, _END = "Make these calls: ", " Then say 7."
_ANSWER = "[[ ## final_answer ## ]]\n7\n\n[[ ## final_reasoning_trace ## ]]\nas asked\n\n[[ ## completed ## ]]"


def calling(id: str, *calls: tuple[str, Mapping[str, Any]], **columns: Any) -> dict[str, Any]:
    """Their results are asked for side by side."""
    return question(id, f"{_BEGIN}{json.dumps(calls)}{_END}", "7", **columns)


class CallingModel(LoopbackServer):
    faults: ClassVar[Mapping[str, Answer]] = {"hang": HANG}

    def answer(self, asked: Asked) -> Answer:
        body = json.loads(asked.body)
        calls = [] if any(each["role"] == "tool" for each in body["messages"]) else _calls(body["messages"])
        message: dict[str, Any] = {"role": "assistant", "content": None if calls else _ANSWER}
        if calls:
            message["tool_calls"] = calls
        reply = {
            **{"id": "r", "object": "chat.completion", "created": 1, "model": body["model"]},
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
        return Answer(json.dumps(reply).encode(), headers={"Content-Type": "application/json"})


def _calls(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    parts = messages[-1]["content"]
    text = parts if isinstance(parts, str) else "".join(each.get("text", "") for each in parts)
    listed = json.loads(text[text.index(_BEGIN) + len(_BEGIN) : text.index(_END)])
    return [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(listed)
    ]
