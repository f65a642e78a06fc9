"""The cheapest server that the GAIA system runs through in eight sequential calls; for benchmarks.

    python tests/servers/fixed_llm.py --port 8901 --latency-seconds 0.2      prints its base URL, then serves

planner → critic → researcher (asks for a tool) → researcher → critic → expert → critic → finalizer. It reads the agent
off the request by its fields and answers from a table, so that its own CPU time does not count. Anybody else's request
(a benchmark's peer) is answered `42`, as a DSPy predictor with one field `answer` reads it.

`GET /stats`: requests, peak in flight, time of the first request and the last reply (wall clock), connections, and the
CPU seconds that the client's process had used at the first request and whenever no request was open any more; for these
`GET /watch/PID` says which process that is (Linux only; 0.0 elsewhere).
"""

import argparse
import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any, ClassVar

FIELDS: dict[bytes, dict[str, str]] = {
    b"[[ ## research_steps ## ]]": {"research_steps": '["Work out 6 * 7."]', "expert_steps": '["State the product."]'},
    b"[[ ## plan_to_review ## ]]": {"decision": "approve", "feedback": "Complete."},
    b"[[ ## research_to_review ## ]]": {"decision": "approve", "feedback": "Complete."},
    b"[[ ## answer_to_review ## ]]": {"decision": "approve", "feedback": "Right."},
    b"[[ ## final_answer ## ]]": {"final_answer": "42", "final_reasoning_trace": "6 * 7 = 42."},
    b"[[ ## research_request ## ]]": {"result": "6 * 7 is 42."},
    b"[[ ## expert_request ## ]]": {"expert_answer": "42", "reasoning_trace": "It is the product."},
}
ANYBODY = "[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]"


def reply_to(body: bytes, tool_calls: int = 1) -> bytes:
    text = body.replace(b"\\n", b"\n")
    mark = next((mark for mark in FIELDS if mark in text), None)
    if mark is None:
        return _completion({"role": "assistant", "content": ANYBODY}, "stop")
    called = body.replace(b" ", b"").count(b'"role":"tool"')
    if mark == b"[[ ## research_request ## ]]" and called < tool_calls:
        function = {"name": "calculator", "arguments": json.dumps({"expression": f"6 * 7 + {called}"})}
        call = {"id": f"call_{called}", "type": "function", "function": function}
        return _completion({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")
    sections = [f"[[ ## {name} ## ]]\n{value}" for name, value in {**FIELDS[mark], "completed": ""}.items()]
    return _completion({"role": "assistant", "content": "\n\n".join(sections)}, "stop")


def _completion(message: dict[str, Any], reason: str) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": reason}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return json.dumps(
        {"id": "c", "object": "chat.completion", "created": 0, "model": "fixed", "choices": [choice], "usage": usage}
    ).encode()


class Connection(asyncio.Protocol):
    latency_seconds = 0.0
    tool_calls = 1
    watched_pid = 0
    stats: ClassVar[dict[str, float]] = {
        "requests": 0,
        "in_flight": 0,
        "peak": 0,
        "connections": 0,
        "first": 0.0,
        "last": 0.0,
        "cpu_first": 0.0,
        "cpu_last": 0.0,
    }

    def connection_made(self, transport: Any) -> None:
        self.transport, self.buffer = transport, b""
        self.stats["connections"] += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            if len(self.buffer) < end + 4 + length:
                return
            body, self.buffer = self.buffer[end + 4 : end + 4 + length], self.buffer[end + 4 + length :]
            self.handle(head, body)

    def handle(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"get"):
            if b"/watch/" in (path := head.split(b" ", 2)[1]):
                type(self).watched_pid = int(path.rpartition(b"/")[2])
            return self.send(json.dumps(self.stats).encode())
        stats = self.stats
        stats["requests"] += 1
        stats["in_flight"] += 1
        stats["peak"] = max(stats["peak"], stats["in_flight"])
        if not stats["first"]:
            stats["first"], stats["cpu_first"] = time.time(), cpu_seconds(self.watched_pid)
        asyncio.get_running_loop().call_later(self.latency_seconds, self.finish, reply_to(body, self.tool_calls))
        return None

    def finish(self, reply: bytes) -> None:
        self.stats["in_flight"] -= 1
        self.stats["last"] = time.time()
        if not self.stats["in_flight"]:
            self.stats["cpu_last"] = cpu_seconds(self.watched_pid)
        self.send(reply)

    def send(self, body: bytes) -> None:
        if not self.transport.is_closing():
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            self.transport.write(head + body)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, to 10 ms; 0.0 where it cannot be told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8901)
    parser.add_argument("--latency-seconds", type=float, default=0.2)
    parser.add_argument("--tool-calls", type=int, default=1, help="of the researcher, one after the other")
    given = parser.parse_args()
    Connection.tool_calls = given.tool_calls
    Connection.latency_seconds = given.latency_seconds
    asyncio.run(serve(given.port))


if __name__ == "__main__":
    main()
