"""What the loopback servers share: requests in a log, answers of every kind, faults by schedule.

with running(TavilyServer(["429", "ok"])) as server:
    ...                                  # something asks server.base_url
    server.requests[0].headers["authorization"]

Schedules, which say which request gets which fault:

["429", "ok", "ok", "hang"]                   the first four requests in turn; "ok" from then on
{"every": 3, "fault": "500"}                  the third, the sixth, …; {"every": 1, …} never ends
{"text": "question 7", "faults": ["reset"]}   only requests that hold the text; they are counted apart
{"first_of": [{"text": "a", …}, {"text": "b", …}]}     the first of them that has a fault for the request
"""

import gzip
import json
import socket
import struct
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

DRIP_SECONDS = 0.02  # between two bytes
OK = "ok"  # no fault
Way = Literal["whole", "hang", "drip", "endless", "reset", "cut", "no_http"]


@dataclass(frozen=True)
class Asked:
    method: str
    path: str  # without the query, unquoted
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    client: Any = None  # its address


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    way: Way = "whole"  # drip: a byte now and then; endless: the body again and again; cut: half of what is promised


HANG, DRIP, RESET, CUT = (
    Answer(way="hang"),
    Answer(b"x" * 10_000, way="drip"),
    Answer(way="reset"),
    Answer(b"{}", way="cut"),
)
ENDLESS = Answer(b"<p>and so on</p>" * 4096, headers={"Content-Type": "text/html"}, way="endless")
NO_HTTP = Answer(b"\x00\xff\xfe nothing that anybody understands\r\n\r\n", way="no_http")
DEEP = Answer(b"[" * 200_000, headers={"Content-Type": "application/json"})
HTML = Answer(b"<!doctype html><title>Please sign in</title>", headers={"Content-Type": "text/html"})
NUISANCES = {  # of any service
    "html": HTML, "hang": HANG, "drip": DRIP, "reset": RESET, "cut": CUT, "no_http": NO_HTTP, "endless": ENDLESS
}  # fmt: skip


def bomb(megabytes: int = 40, content_type: str = "text/html") -> Answer:
    """Small on the wire, large once it is unpacked."""
    packed = gzip.compress(bytes(1_000_000 * megabytes), 1)
    return Answer(packed, headers={"Content-Type": content_type, "Content-Encoding": "gzip"})


def answer_json(value: Any, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(json.dumps(value).encode(), status, {"Content-Type": "application/json", **named})


@dataclass
class Rule:
    faults: Sequence[str] = ()  # in turn
    every: int = 0  # 0: no fault after those in turn
    fault: str = OK
    text: str = ""  # only requests that hold it
    asked: int = 0

    def next(self, text: str) -> str:
        if self.text not in text:
            return OK
        self.asked += 1
        if self.asked <= len(self.faults):
            return self.faults[self.asked - 1]
        return self.fault if self.every and self.asked % self.every == 0 else OK


@dataclass
class Schedule:
    rules: Sequence[Rule] = ()

    def fault(self, text: str) -> str:
        """The fault for the next request, which holds `text`; "ok" for none."""
        return next((fault for rule in self.rules if (fault := rule.next(text)) != OK), OK)


def read_schedule(value: Any, known: Collection[str]) -> Schedule:
    listed = value["first_of"] if isinstance(value, dict) and "first_of" in value else [value]
    schedule = Schedule([Rule(**each) if isinstance(each, dict) else Rule(each) for each in listed])
    named = {name for rule in schedule.rules for name in (*rule.faults, rule.fault)}
    assert named <= {OK, *known}, f"there are the faults {', '.join(sorted(known))}"
    return schedule


class LoopbackServer(ThreadingHTTPServer):
    """A thread a connection; stopping it lets go of those that hang."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 4096
    faults: ClassVar[Mapping[str, Answer]] = {}

    def __init__(self, schedule: Any = (), port: int = 0, address: str = "127.0.0.1") -> None:
        super().__init__((address, port), _Handler)
        self.stopping = threading.Event()
        self.disconnected = threading.Event()  # a client went away before its answer's end
        self.log: list[Asked] = []
        self._lock = threading.Lock()
        self._schedule = read_schedule(schedule, self.faults) if schedule else Schedule()

    @property
    def base_url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_port}"

    @property
    def requests(self) -> Any:
        return self.log

    def answer(self, asked: Asked) -> Answer:
        raise NotImplementedError

    def take(self, asked: Asked) -> Answer:
        """A fault if one is due, otherwise what the service says."""
        with self._lock:
            self.log.append(asked)
            name = self._schedule.fault(f"{asked.path}?{asked.query} {asked.body.decode('utf-8', 'replace')}")
        return self.faults[name] if name in self.faults else self.answer(asked)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that give up are what this is for; anything else is a defect of the server."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept, so that a client may meet a stale one
    disable_nagle_algorithm = True  # else a body waits for the client to acknowledge the headers
    server: LoopbackServer

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        body = self.rfile.read(length)
        if len(body) < length:  # the client was killed in the middle of it: no request
            self.close_connection = True
            return
        asked = Asked(self.command, unquote(split.path), query, headers, body, self.client_address)
        self._send(self.server.take(asked))

    do_POST = do_HEAD = do_GET

    def _send(self, answer: Answer) -> None:
        self.close_connection = answer.way != "whole"
        if answer.way == "hang":
            self.server.stopping.wait()
        elif answer.way == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.rfile.close()  # the last hold on the socket; left to the server's own end, a FIN would come first
        elif answer.way == "no_http":
            self.wfile.write(answer.body)
        else:
            try:
                self._head(answer)
                self._body(answer)
            except OSError:  # the client has given up waiting
                self.server.disconnected.set()

    def _head(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.way != "endless":
            self.send_header("Content-Length", str(len(answer.body) * (2 if answer.way == "cut" else 1)))
        self.end_headers()

    def _body(self, answer: Answer) -> None:
        if self.command == "HEAD":
            return
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
