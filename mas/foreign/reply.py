"""What an agent that is not ours may return, and what is made of it.

read_reply({"answer": 42, "reasoning_trace": "six times seven", "pages": [3]}, "my_agent:answer")
# Reply(answer="42", reasoning_trace="six times seven", rest={"pages": [3]})
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mas.encodable import encodable
from mas.errors import AgentReplyError

ANSWER_KEYS = ("final_answer", "answer")
TRACE_KEYS = ("final_reasoning_trace", "reasoning_trace", "reasoning")


@dataclass(frozen=True)
class Reply:
    answer: str
    reasoning_trace: str = ""
    rest: dict[str, Any] = field(default_factory=dict)  # what else was returned: kept in the final state


def read_reply(value: Any, agent: str) -> Reply:
    """
    Args:
        value: a text or a number, a mapping, or a `dspy.Prediction`.
        agent: its name in an error message.

    Raises:
        AgentReplyError: there is no answer in it.
    """
    if isinstance(value, str | int | float):
        return Reply(encodable(str(value)))
    fields = _fields(value)
    if fields is None:
        raise AgentReplyError(f"{agent} returned a {type(value).__name__}; expected a text, or a dict with an answer")
    answer = next((fields[key] for key in ANSWER_KEYS if fields.get(key) is not None), None)
    if answer is None:
        keys = ", ".join(map(str, fields)) or "none"
        raise AgentReplyError(f"{agent} gave no answer; expected the key 'answer', and found: {keys}")
    if not isinstance(answer, str | int | float):
        raise AgentReplyError(f"{agent} gave a {type(answer).__name__} as its answer; expected a text or a number")
    trace = next((fields[key] for key in TRACE_KEYS if fields.get(key) is not None), "")
    rest = {str(key): item for key, item in fields.items() if key not in (*ANSWER_KEYS, *TRACE_KEYS)}
    return Reply(encodable(str(answer)), encodable(str(trace)), rest)


def _fields(value: Any) -> dict[Any, Any] | None:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "toDict"):  # a dspy.Prediction, seen without importing dspy
        return dict(value.items())
    return None
