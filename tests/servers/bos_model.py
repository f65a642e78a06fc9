"""A model server whose replies repeat the marker in the request: a reply to another client would show its marker.

    python tests/servers/bos_model.py --port 0       prints its base URL, then serves

The planner chooses `sql`, the query selects the marker, and the answer is `answer to MARKER`. A question with `slow N`
gets its plan after N seconds; one with `hostile` gets an answer that is HTML. `GET /stats`: requests, those in flight.
"""

import argparse
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

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


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock: ClassVar[threading.Lock] = threading.Lock()
    stats: ClassVar[dict[str, int]] = {"requests": 0, "open": 0}

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            self.stats["requests"] += 1
            self.stats["open"] += 1
        message = reply(body)
        with self.lock:
            self.stats["open"] -= 1
        choice = {"index": 0, "finish_reason": "tool_calls" if "tool_calls" in message else "stop", "message": message}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        base = {"id": "1", "object": "chat.completion", "created": 0, "model": "bos"}
        self._send({**base, "choices": [choice], "usage": usage})

    def do_GET(self) -> None:
        self._send(self.stats)

    def _send(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    server = Server(("127.0.0.1", parser.parse_args().port), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
