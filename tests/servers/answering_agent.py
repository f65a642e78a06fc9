"""Someone's agent behind HTTP, on loopback: a test writes what it replies.

with answering_agent(lambda body: {"answer": "5"}) as agent:
    httpx.post(agent.url, json={"question": "2 + 3?", "file": None, "thread_id": "t"}).json()      # {"answer": "5"}
    agent.bodies[0]["question"], agent.headers[0]["authorization"]
"""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Raw:
    """A response that is not a JSON object with status 200."""

    body: bytes | str = b""
    status: int = 200
    wait_seconds: float = 0.0
    drop: bool = False  # the connection is closed instead
    headers: dict[str, str] = field(default_factory=dict)


Reply = Callable[[dict[str, Any]], dict[str, Any] | Raw]


@dataclass
class AnsweringAgent:
    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)  # names in lower case
    connections: set[Any] = field(default_factory=set)  # the clients' addresses


class _Server(ThreadingHTTPServer):
    request_queue_size = 256  # many questions at once
    daemon_threads = True


@contextmanager
def answering_agent(reply: Reply) -> Iterator[AnsweringAgent]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            agent.bodies.append(body)
            agent.headers.append({name.lower(): value for name, value in self.headers.items()})
            agent.connections.add(self.client_address)
            answer = reply(body)
            raw = answer if isinstance(answer, Raw) else Raw(json.dumps(answer))
            time.sleep(raw.wait_seconds)
            if raw.drop:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self._send(raw)

        def _send(self, raw: Raw) -> None:
            content = raw.body.encode() if isinstance(raw.body, str) else raw.body
            self.send_response(raw.status)
            for name, value in {"Content-Length": str(len(content)), **raw.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # the client has given up waiting
                self.close_connection = True

    with _Server(("127.0.0.1", 0), Handler) as server:
        agent = AnsweringAgent(f"http://127.0.0.1:{server.server_port}/answer")
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield agent
        finally:
            server.shutdown()
