"""What a model's server replies: a chat completion with fields in the format that DSPy asks for, or calls of tools.

write_fields({"answer": "42"})                             # "[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]"
complete(write_fields({"answer": "42"}))["choices"]        # [{"index": 0, "finish_reason": "stop", "message": {…}}]
complete(calls=[("calculator", {"expression": "6 * 7"})])  # a reply that calls a tool
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.servers.loopback import Answer, answer_json

Call = tuple[str, Mapping[str, Any]]  # tool, arguments
_OUTPUTS = re.compile(r"Your output fields are:\n(.*?)(?:\nAll interactions|\n\nYour tools are:|\Z)", re.DOTALL)
_NAME = re.compile(r"^\d+\. `(\w+)`", re.MULTILINE)


def list_outputs(system: str) -> tuple[str, ...]:
    """Return the fields that the system message asks for."""
    found = _OUTPUTS.search(system)
    return tuple(_NAME.findall(found[1])) if found else ()


def wants_json(system: str) -> bool:
    return "Outputs will be a JSON object with the following fields." in system.split("In adhering to", 1)[0]


def write_fields(values: Mapping[str, object], as_json: bool = False) -> str:
    if as_json:
        return json.dumps(values, ensure_ascii=False)
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in values.items()
    }
    return "".join(f"[[ ## {name} ## ]]\n{text}\n\n" for name, text in texts.items()) + "[[ ## completed ## ]]"


def complete(
    content: str | None = None,
    calls: Sequence[Call] = (),
    *,
    id: str = "c",
    model: str = "scripted",
    tokens: tuple[int, int] = (10, 5),
    reason: str | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return the response object; `changes` replace its parts."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [_call(f"call_{id}_{n}", *each) for n, each in enumerate(calls)]
    choice = {"index": 0, "message": message, "finish_reason": reason or ("tool_calls" if calls else "stop")}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    whole = {"id": id, "object": "chat.completion", "created": 0, "model": model, "choices": [choice], "usage": usage}
    return {**whole, **changes}


def refusal(message: str, code: str | None = None, kind: str = "error") -> dict[str, Any]:
    """Return an error as OpenAI's API has it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def refuse(status: int, message: str) -> Answer:
    return answer_json(refusal(message, kind="invalid_request_error"), status)


def _call(id: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": id, "type": "function", "function": function}
