"""A model server whose agent makes the tool calls that a test has planned, and then answers what was planned.

    with running(WebUser({"lighthouse": ([("read_page", {"url": "…"})], "1874")})) as server:
        ...          # system=single_agent model=openai_compatible model.base_url=server.model_url

A plan goes by words of the question: the first whose words are in the conversation.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.servers.loopback import Answer, Asked, LoopbackServer

Call = tuple[str, dict[str, Any]]
Plan = tuple[Sequence[Call], str]  # calls, all at once; final answer


class WebUser(LoopbackServer):
    def __init__(self, plans: Mapping[str, Plan]) -> None:
        super().__init__()
        self.plans = plans

    @property
    def model_url(self) -> str:
        return f"{self.base_url}/v1"

    def answer(self, asked: Asked) -> Answer:
        messages = json.loads(asked.body)["messages"]
        said = json.dumps(messages)
        calls, final = next(plan for words, plan in self.plans.items() if words in said)
        if calls and not any(each["role"] == "tool" for each in messages):
            return _completion({"content": None, "tool_calls": [_call(n, *each) for n, each in enumerate(calls)]})
        fields = {"final_answer": final, "final_reasoning_trace": "As it stood there.", "completed": ""}
        return _completion({"content": "\n\n".join(f"[[ ## {name} ## ]]\n{text}" for name, text in fields.items())})


def _call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{number}", "type": "function", "function": function}


def _completion(message: dict[str, Any]) -> Answer:
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    body = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    return Answer(json.dumps(body).encode(), 200, {"Content-Type": "application/json"})
