"""A chat server with a fixed rate: a token bucket, and 429 for whatever it does not cover.

    python tests/servers/rate_limited_llm.py --port 8902 --requests-per-second 50 --burst 50 --latency-seconds 0.2 \
        --retry-after                                                         prints its base URL, then serves

A request that the bucket covers is answered after the latency, with one fixed completion. A refusal comes after
`--refusal-seconds`; with `--retry-after` it says how many whole seconds to wait, rounded up, as the header demands.
`GET /stats`: good, rejected, seconds of the first request and of the last good reply (wall clock); `POST /reset`.
"""

import argparse
import asyncio
import json
import math
import time
from typing import Any, ClassVar

REPLY = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "fixed",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    }
).encode()
REFUSAL = json.dumps(
    {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
).encode()


class Bucket:
    def __init__(self, per_second: float, burst: float) -> None:
        self.per_second, self.burst = per_second, burst
        self.fill()

    def fill(self) -> None:
        self.level, self.at = self.burst, time.monotonic()

    def take(self) -> float:
        """0 if the request is covered, otherwise the seconds until one would be."""
        now = time.monotonic()
        self.level, self.at = min(self.burst, self.level + (now - self.at) * self.per_second), now
        if self.level >= 1:
            self.level -= 1
            return 0.0
        return (1 - self.level) / self.per_second


class Connection(asyncio.Protocol):
    bucket: ClassVar[Bucket]
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
            self.bucket.fill()
            self.stats.update(good=0, rejected=0, first=0.0, last=0.0)
            return self.send(b"200 OK", b"{}")
        self.stats["first"] = self.stats["first"] or time.time()
        wait = self.bucket.take()
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
    given = parser.parse_args()
    Connection.bucket = Bucket(given.requests_per_second, given.burst)
    Connection.latency_seconds, Connection.refusal_seconds = given.latency_seconds, given.refusal_seconds
    Connection.says_when = given.retry_after
    asyncio.run(serve(given.port))


if __name__ == "__main__":
    main()
