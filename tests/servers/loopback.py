"""What the loopback servers of outside services share: requests in a log, answers of every kind, faults by schedule.

with running(TavilyServer(["429", "ok"])) as server:
    ...                                  # something asks server.base_url
    server.requests[0].headers["authorization"]
"""

import argparse
import gzip
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.servers.fault_schedule import read_schedule

DRIP_SECONDS = 0.2  # between two bytes
Way = Literal["whole", "hang", "drip", "endless", "reset", "cut", "no_http"]


@dataclass(frozen=True)
class Asked:
    method: str
    path: str  # without the query, unquoted
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    way: Way = "whole"  # drip: a byte now and then; endless: the body again and again; cut: half of what is promised


HANG, DRIP, RESET, CUT = (
    Answer(way="hang"),
    Answer(b"x" * 1000, way="drip"),
    Answer(way="reset"),
    Answer(b"{}", way="cut"),
)
ENDLESS = Answer(b"<p>and so on</p>" * 4096, headers={"Content-Type": "text/html"}, way="endless")
NO_HTTP = Answer(b"\x00\xff\xfe nothing that anybody understands\r\n\r\n", way="no_http")
DEEP = Answer(b"[" * 200_000, headers={"Content-Type": "application/json"})
HTML = Answer(b"<!doctype html><title>Please sign in</title>", headers={"Content-Type": "text/html"})


def bomb(megabytes: int = 40, content_type: str = "text/html") -> Answer:
    """Small on the wire, large once it is unpacked."""
    packed = gzip.compress(bytes(1_000_000 * megabytes), 1)
    return Answer(packed, headers={"Content-Type": content_type, "Content-Encoding": "gzip"})


class LoopbackServer(ThreadingHTTPServer):
    """A thread a connection; stopping it lets go of those that hang."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    faults: ClassVar[Mapping[str, Answer]] = {}

    def __init__(self, schedule: Any = (), port: int = 0, address: str = "127.0.0.1") -> None:
        super().__init__((address, port), _Handler)
        self.stopping = threading.Event()
        self.requests: list[Asked] = []
        self._lock = threading.Lock()
        self._schedule = read_schedule(list(schedule) if isinstance(schedule, tuple) else schedule, self.faults)

    @property
    def base_url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_port}"

    def answer(self, asked: Asked) -> Answer:
        raise NotImplementedError

    def take(self, asked: Asked) -> Answer:
        """A fault if one is due, otherwise what the service says."""
        with self._lock:
            self.requests.append(asked)
            name = self._schedule.fault(f"{asked.path}?{asked.query} {asked.body.decode('utf-8', 'replace')}")
        return self.faults[name] if name in self.faults else self.answer(asked)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet: clients go away in the middle, on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LoopbackServer

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        self._send(self.server.take(Asked(self.command, unquote(split.path), query, headers, self.rfile.read(length))))

    do_POST = do_GET

    def _send(self, answer: Answer) -> None:
        self.close_connection = answer.way != "whole"
        if answer.way == "hang":
            self.server.stopping.wait()
        elif answer.way == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif answer.way == "no_http":
            self.wfile.write(answer.body)
        else:
            self._head(answer)
            with suppress(OSError):
                self._body(answer)

    def _head(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.way != "endless":
            self.send_header("Content-Length", str(len(answer.body) * (2 if answer.way == "cut" else 1)))
        self.end_headers()

    def _body(self, answer: Answer) -> None:
        if answer.way == "endless":
            while not self.server.stopping.is_set():
                self.wfile.write(answer.body)
        elif answer.way == "drip":
            for byte in answer.body:
                self.wfile.write(bytes([byte]))
                if self.server.stopping.wait(DRIP_SECONDS):
                    return
        else:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


_Server = TypeVar("_Server", bound=LoopbackServer)


@contextmanager
def running(server: _Server) -> Iterator[_Server]:
    """In a thread until the end of the block."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()


def serve(kind: type[LoopbackServer]) -> None:
    """As a program: prints the base URL once it listens."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--schedule", nargs="*", default=[], help=f"faults in turn, of: {', '.join(kind.faults)}")
    given = parser.parse_args()
    with kind(given.schedule, given.port) as server:
        print(server.base_url, flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
