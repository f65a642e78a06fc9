"""The cheapest server that the GAIA system runs through in eight sequential calls; for benchmarks.

    python tests/servers/fixed_llm.py --port 8901 --latency-seconds 0.2      prints its base URL, then serves

planner → critic → researcher (asks for a tool) → researcher → critic → expert → critic → finalizer. It reads the agent
off the request by its fields and answers from a table, so that its own CPU time does not count.
`GET /stats`: requests, peak in flight, seconds of the first and last request (wall clock).
"""

import argparse
import asyncio
import json
import time
from typing import Any, ClassVar

FIELDS: dict[bytes, dict[str, str]] = {
    b"[[ ## research_steps ## ]]": {
        "research_steps": '["Work out 6 * 7."]',
        "expert_steps": '["State the product."]',
    },
    b"[[ ## plan_to_review ## ]]": {"decision": "approve", "feedback": "Complete."},
    b"[[ ## research_to_review ## ]]": {"decision": "approve", "feedback": "Complete."},
    b"[[ ## answer_to_review ## ]]": {"decision": "approve", "feedback": "Right."},
    b"[[ ## final_answer ## ]]": {"final_answer": "42", "final_reasoning_trace": "6 * 7 = 42."},
    b"[[ ## research_request ## ]]": {"result": "6 * 7 is 42."},
    b"[[ ## expert_request ## ]]": {"expert_answer": "42", "reasoning_trace": "It is the product."},
}
TOOL_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "calculator", "arguments": json.dumps({"expression": "6 * 7"})},
}


def reply_to(body: bytes) -> bytes:
    text = body.replace(b"\\n", b"\n")
    mark = next(mark for mark in FIELDS if mark in text)
    if mark == b"[[ ## research_request ## ]]" and b'"role":"tool"' not in body.replace(b" ", b""):
        return _completion({"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}, "tool_calls")
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
    stats: ClassVar[dict[str, float]] = {"requests": 0, "in_flight": 0, "peak": 0, "first": 0.0, "last": 0.0}

    def connection_made(self, transport: Any) -> None:
        self.transport, self.buffer = transport, b""

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
            return self.send(json.dumps(self.stats).encode())
        stats = self.stats
        stats["requests"] += 1
        stats["in_flight"] += 1
        stats["peak"] = max(stats["peak"], stats["in_flight"])
        stats["first"] = stats["first"] or time.time()
        asyncio.get_running_loop().call_later(self.latency_seconds, self.finish, reply_to(body))
        return None

    def finish(self, reply: bytes) -> None:
        self.stats["in_flight"] -= 1
        self.stats["last"] = time.time()
        self.send(reply)

    def send(self, body: bytes) -> None:
        if not self.transport.is_closing():
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            self.transport.write(head + body)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8901)
    parser.add_argument("--latency-seconds", type=float, default=0.2)
    given = parser.parse_args()
    Connection.latency_seconds = given.latency_seconds
    asyncio.run(serve(given.port))


if __name__ == "__main__":
    main()
