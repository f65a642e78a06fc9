"""A local OpenAI-compatible server that plays a model which can only repeat what tools return (`perfect_model.py`).

It keeps no state between requests, apart from the log of them: the same request always gets the same reply.

    python tests/servers/llm.py --port 8900                          # base URL: http://127.0.0.1:8900/v1
    python tests/servers/llm.py --port 8900 --latency-seconds 0.2    # every completion takes that long
    python tests/servers/llm.py --port 8900 --reject expert          # the expert's critic never approves
    python tests/servers/llm.py --port 8900 --text-tools-only        # refuses function calling, as many servers do

POST /v1/chat/completions, GET /v1/models, GET /stats, GET /requests (the newest bodies, oldest first), POST /reset.
"""

import argparse
import asyncio
import json
import sys
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.servers.chat_reply import completion
from tests.servers.chat_request import BadRequestError, read_request
from tests.servers.perfect_model import PerfectModel

MODEL_NAME = "perfect"
MAX_BODY_BYTES = 20_000_000
MAX_HEADER_BYTES = 64_000
MAX_REQUESTS_KEPT = 10_000
Answer = tuple[int, dict[str, Any]]  # HTTP status, JSON body


@dataclass
class Log:
    """What came in since the start or the last reset."""

    bodies: deque[bytes] = field(default_factory=lambda: deque(maxlen=MAX_REQUESTS_KEPT))
    by_role: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    errors: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    connections: int = 0

    def stats(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "bodies"}


@dataclass
class Server:
    """The routes: each answers with a status and a JSON body."""

    model: PerfectModel
    latency_seconds: float = 0.0
    text_tools_only: bool = False
    log: Log = field(default_factory=Log)

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        routes: dict[tuple[str, str], Callable[[], Answer]] = {
            ("POST", "/v1/chat/completions"): partial(self._complete, body),
            ("GET", "/v1/models"): lambda: (200, {"object": "list", "data": [{"id": MODEL_NAME, "object": "model"}]}),
            ("GET", "/stats"): lambda: (200, self.log.stats()),
            ("GET", "/requests"): lambda: (200, {"requests": [_recorded(each) for each in self.log.bodies]}),
            ("POST", "/reset"): self._reset,
        }
        route = routes.get((method, path))
        if route is None:
            return _error(404, f"no route {method} {path}")
        try:
            return route()
        except Exception as error:  # noqa: BLE001  the boundary of one request: the client must not hang on it
            traceback.print_exc()
            return _error(500, f"the server itself failed: {error!r}")

    def _reset(self) -> Answer:
        self.log = Log(in_flight=self.log.in_flight, peak_in_flight=self.log.in_flight)
        return 200, {"reset": True}

    def _complete(self, body: bytes) -> Answer:
        self.log.requests += 1
        self.log.bodies.append(body)
        try:
            chat = read_request(body)
            if self.text_tools_only and json.loads(body).get("tools"):
                raise BadRequestError("this server does not support `tools`: describe them in the prompt")
        except BadRequestError as error:
            self.log.errors += 1
            return _error(400, str(error))
        self.log.by_role[chat.role] = self.log.by_role.get(chat.role, 0) + 1
        name = str(json.loads(body).get("model", MODEL_NAME))
        return 200, completion(chat, self.model.reply(chat), name, body)


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive; one request at a time on a connection, as clients send them."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.received = bytearray()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.log.connections += 1

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            request_line, *header_lines = self.received[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in header_lines)}
            length = int(headers.get("content-length") or 0) if headers.get("content-length", "0").isdigit() else -1
            if not 0 <= length <= MAX_BODY_BYTES or "transfer-encoding" in headers:
                return self._refuse(f"a Content-Length of at most {MAX_BODY_BYTES} bytes is expected")
            if len(self.received) < end + 4 + length:
                if "expect" in headers and len(self.received) == end + 4:
                    self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return None
            body = bytes(self.received[end + 4 : end + 4 + length])
            del self.received[: end + 4 + length]
            self._handle(request_line, body)
        return self._refuse("the headers are too long") if len(self.received) > MAX_HEADER_BYTES else None

    def _handle(self, request_line: str, body: bytes) -> None:
        method, path, *_ = [*request_line.split(" "), "", ""]
        answer = self.server.answer(method, path.partition("?")[0], body)
        if not path.startswith("/v1/chat/"):
            return self._send(*answer)
        log = self.server.log
        log.in_flight += 1
        log.peak_in_flight = max(log.peak_in_flight, log.in_flight)
        if not self.server.latency_seconds:
            return self._late(answer)
        asyncio.get_running_loop().call_later(self.server.latency_seconds, self._late, answer)
        return None

    def _late(self, answer: Answer) -> None:
        self.server.log.in_flight -= 1
        self._send(*answer)

    def _refuse(self, message: str) -> None:
        self._send(*_error(400, message))
        self.transport.close()

    def _send(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}\r\nContent-Type: application/json\r\n"
        if not self.transport.is_closing():
            self.transport.write(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text)


def _error(status: int, message: str) -> Answer:
    return status, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def _recorded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")


async def serve(server: Server, port: int) -> None:
    """Serve on loopback until cancelled; port 0 takes a free one. The base URL is printed once it answers."""
    listening = await asyncio.get_running_loop().create_server(
        lambda: Connection(server), "127.0.0.1", port, backlog=4096
    )
    print(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", flush=True)
    async with listening:
        await listening.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="A local model server that can only repeat what tools return.")
    parser.add_argument("--port", type=int, default=8900, help="0: a free one")
    parser.add_argument("--latency-seconds", type=float, default=0.0, help="added to every completion")
    parser.add_argument("--reject", choices=["planner", "researcher", "expert"], action="append", default=[])
    parser.add_argument("--text-tools-only", action="store_true", help="refuse requests with native `tools`")
    given = parser.parse_args()
    server = Server(PerfectModel(frozenset(given.reject)), given.latency_seconds, given.text_tools_only)
    try:
        asyncio.run(serve(server, given.port))
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        sys.exit(f"cannot listen on port {given.port}: {error}; give another with --port")


if __name__ == "__main__":
    main()
