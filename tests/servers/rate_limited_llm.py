"""A chat server with a fixed rate: a token bucket, and 429 for whatever it does not cover.

    python tests/servers/rate_limited_llm.py --port 8902 --requests-per-second 50 --burst 50 --latency-seconds 0.2 \
        --retry-after                                                         prints its base URL, then serves

A request that the bucket covers is answered after the latency, with one fixed completion. A refusal comes after
`--refusal-seconds`; with `--retry-after` it says how many whole seconds to wait, rounded up, as the header demands.
`--chance 0.1` refuses a share whatever the rate, `--window-seconds 1` counts in fixed windows instead of a bucket, and
`--neighbour-per-second 40` lets somebody else use it as well (`refusals.py`).
`GET /stats`: good, rejected, seconds of the first request and of the last good reply (wall clock); `POST /reset`.
"""

import argparse
import asyncio
import json
import math
import time
from collections.abc import Callable
from typing import Any, ClassVar

if __package__:
    from tests.servers.refusals import Bucket, Chance, Rule, Shared, Window
else:  # as a script
    from refusals import Bucket, Chance, Rule, Shared, Window

ANSWER = "[[ ## final_answer ## ]]\n42\n\n[[ ## final_reasoning_trace ## ]]\n6 * 7.\n\n[[ ## completed ## ]]"
REPLY = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "fixed",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    }
).encode()
REFUSAL = json.dumps(
    {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
).encode()


class Connection(asyncio.Protocol):
    build_rule: ClassVar[Callable[[], Rule]]
    rule: ClassVar[Rule]
    began: ClassVar[float] = 0.0
    latency_seconds = refusal_seconds = 0.0
    says_when = False
    stats: ClassVar[dict[str, float]] = {"good": 0, "rejected": 0, "first": 0.0, "last": 0.0}

    def connection_made(self, transport: Any) -> None:
        self.transport, self.buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            self.handle(head)

    def handle(self, head: bytes) -> None:
        if head.startswith(b"get"):
            return self.send(b"200 OK", json.dumps(self.stats).encode())
        if head.startswith(b"post /reset"):
            type(self).rule, type(self).began = type(self).build_rule(), time.monotonic()
            self.stats.update(good=0, rejected=0, first=0.0, last=0.0)
            return self.send(b"200 OK", b"{}")
        self.stats["first"] = self.stats["first"] or time.time()
        wait = self.rule.take(time.monotonic() - self.began)
        loop = asyncio.get_running_loop()
        if wait:
            self.stats["rejected"] += 1
            loop.call_later(self.refusal_seconds, self.refuse, wait)
        else:
            self.stats["good"] += 1
            loop.call_later(self.latency_seconds, self.answer)
        return None

    def answer(self) -> None:
        self.stats["last"] = time.time()
        self.send(b"200 OK", REPLY)

    def refuse(self, wait: float) -> None:
        header = b"Retry-After: %d\r\n" % math.ceil(wait) if self.says_when else b""
        self.send(b"429 Too Many Requests", REFUSAL, header)

    def send(self, status: bytes, body: bytes, header: bytes = b"") -> None:
        if not self.transport.is_closing():
            head = b"HTTP/1.1 %b\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            self.transport.write(head % (status, header, len(body)) + body)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8902)
    parser.add_argument("--requests-per-second", type=float, default=50.0)
    parser.add_argument("--burst", type=float, default=50.0, help="requests that a full bucket covers at once")
    parser.add_argument("--latency-seconds", type=float, default=0.2)
    parser.add_argument("--refusal-seconds", type=float, default=0.0)
    parser.add_argument("--retry-after", action="store_true")
    parser.add_argument("--chance", type=float, default=0.0)
    parser.add_argument("--window-seconds", type=float, default=0.0)
    parser.add_argument("--neighbour-per-second", type=float, default=0.0)
    given = parser.parse_args()

    def build_rule() -> Rule:
        rule: Rule = Bucket(given.requests_per_second, given.burst)
        if given.window_seconds:
            rule = Window(given.requests_per_second, given.window_seconds)
        if given.neighbour_per_second:
            rule = Shared(rule, given.neighbour_per_second)
        return Chance(given.chance, rule) if given.chance else rule

    Connection.build_rule = build_rule
    Connection.rule, Connection.began = build_rule(), time.monotonic()
    Connection.latency_seconds, Connection.refusal_seconds = given.latency_seconds, given.refusal_seconds
    Connection.says_when = given.retry_after
    asyncio.run(serve(given.port))


if __name__ == "__main__":
    main()
