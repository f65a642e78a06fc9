"""A model server whose replies repeat the marker in the request: a reply to another client would show its marker.

    python tests/servers/bos_model.py --port 0       prints its base URL, then serves

The planner chooses `sql`, the query selects the marker, and the answer is `answer to MARKER`. A question with `slow N`
gets its plan after N seconds; one with `hostile` gets an answer that is HTML. `GET /stats`: requests, those in flight.
"""

import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.servers.loopback import Answer, Asked, LoopbackServer, serve

_MARKER = re.compile(r"marker-[\w-]+")
_OUTPUTS = re.compile(r"Your output fields are:\n(.*?)\nAll interactions", re.DOTALL)
HTML = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


def reply(body: dict[str, Any]) -> dict[str, Any]:
    """The message of the model."""
    messages = body["messages"]
    text = json.dumps([message for message in messages if message["role"] == "user"])
    found = _MARKER.search(text)
    marker = found[0] if found else "marker-none"
    if any("mcp_db_query" in json.dumps(tool) for tool in body.get("tools") or ()):
        arguments = json.dumps({"query": f"SELECT '{marker}' AS marker, name FROM customers ORDER BY id LIMIT 2"})
        call = {"id": "c1", "type": "function", "function": {"name": "mcp_db_query", "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    names = re.findall(r"^\d+\. `(\w+)`", _OUTPUTS.search(messages[0]["content"])[1], re.MULTILINE)  # type: ignore[index]
    if "chosen_agents" in names and (slow := re.search(r"slow (\d+)", text)):
        time.sleep(float(slow[1]))
    values = {"chosen_agents": '["sql"]', "needs": "{}", "rationale": f"plan for {marker}", "confidence": "0.9"}
    answer = f"{HTML} {marker}" if "hostile" in text else f"answer to {marker}"
    sections = [f"[[ ## {name} ## ]]\n{values.get(name, answer if 'answer' in name else '')}" for name in names]
    return {"role": "assistant", "content": "\n\n".join([*sections, "[[ ## completed ## ]]"])}


class BosModel(LoopbackServer):
    def __init__(self, schedule: Any = (), port: int = 0) -> None:
        super().__init__(schedule, port)
        self.counting, self.stats = threading.Lock(), {"requests": 0, "open": 0}

    @property
    def base_url(self) -> str:
        return f"{super().base_url}/v1"

    def answer(self, asked: Asked) -> Answer:
        return Answer(json.dumps(self.complete(asked)).encode(), headers={"Content-Type": "application/json"})

    def complete(self, asked: Asked) -> dict[str, Any]:
        if asked.method == "GET":
            return dict(self.stats)
        self.count(requests=1, open=1)
        message = reply(json.loads(asked.body))
        self.count(open=-1)
        choice = {"index": 0, "finish_reason": "tool_calls" if "tool_calls" in message else "stop", "message": message}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        base = {"id": "1", "object": "chat.completion", "created": 0, "model": "bos"}
        return {**base, "choices": [choice], "usage": usage}

    def count(self, **changes: int) -> None:
        with self.counting:
            for name, change in changes.items():
                self.stats[name] += change


if __name__ == "__main__":
    serve(BosModel)
