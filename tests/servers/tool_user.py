"""A loopback model whose agent makes the tool calls that its question lists, and then gives the answer that is listed.

with running(ToolUser()) as server:
    calling("q1", ("tavily_tool", {"query": "lighthouse"}), answer="1874")      # a row of a dataset
    f"model.base_url={server.base_url}"
"""

import json
from typing import Any

from tests.eval.command_line import question
from tests.servers.chat_reply import Call, complete, write_fields
from tests.servers.scripted_llm import Body, ScriptedLlm

_BEGIN, _THEN, _END = "Make these calls: ", " Then say: ", " (end)"


def order(*calls: Call, answer: str = "7") -> str:
    """Return the words of a question; the results of its calls are asked for at once."""
    return f"{_BEGIN}{json.dumps(calls)}{_THEN}{answer}{_END}"


def calling(id: str, *calls: Call, answer: str = "7", **columns: Any) -> dict[str, Any]:
    return question(id, order(*calls, answer=answer), answer, **columns)


class ToolUser(ScriptedLlm):
    def complete(self, body: Body) -> Body:
        ordered = _text(body["messages"]).partition(_BEGIN)[2].partition(_END)[0]
        calls, _, answer = ordered.rpartition(_THEN)
        if json.loads(calls) and not any(each["role"] == "tool" for each in body["messages"]):
            return complete(calls=json.loads(calls))
        return complete(write_fields({"final_answer": answer, "final_reasoning_trace": "as asked"}))


def _text(messages: list[dict[str, Any]]) -> str:
    contents = [each["content"] for each in messages if each["role"] == "user"]
    return "\n".join(
        each if isinstance(each, str) else "".join(part.get("text", "") for part in each) for each in contents
    )
