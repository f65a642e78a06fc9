"""An OpenAI-compatible server that fails as it is told to, and answers every question with 42 otherwise.

    python tests/servers/faults.py --port 8902                             # base URL: http://127.0.0.1:8902/v1
    python tests/servers/faults.py --port 0 --schedule '["429", "ok", "hang"]'
    python tests/servers/faults.py --list                                  # the names of the faults

POST /v1/chat/completions · POST /schedule (JSON, forms in `fault_schedule.py`; counting and the log start over) ·
GET /requests: {"requests": [{"seconds", "fault", "digest", "text"}]}, oldest first. In a test:

    with fault_server(["500"]) as server:
        ...                                     # something asks server.base_url
        assert server.faults() == ["500", "ok", "ok", "ok"]
"""

import argparse
import hashlib
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.servers.fault_replies import FAULTS, OK_REPLY, Fault
from tests.servers.fault_schedule import Schedule, ScheduleError, read_schedule

DRIP_SECONDS = 1.0  # between two bytes
PATH = "/v1/chat/completions"
TEXT_CHARS = 200  # of a request that the log keeps: the end of its last message


class FaultServer(ThreadingHTTPServer):
    """A thread a connection; stopping it lets go of those that hang."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 4096

    def __init__(self, schedule: Any = None, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), FaultHandler)
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self.start_over([] if schedule is None else schedule)

    def start_over(self, schedule: Any) -> None:
        """
        Raises:
            ScheduleError: it is none.
        """
        read = read_schedule(schedule, FAULTS)
        with self._lock:
            self._schedule: Schedule = read
            self._log: list[dict[str, Any]] = []
            self._started = time.monotonic()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def requests(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self._log)

    def faults(self) -> list[str]:
        """What each request got, in the order in which they came."""
        return [entry["fault"] for entry in self.requests()]

    def next_fault(self, body: bytes) -> Fault:
        text = _text(body)
        with self._lock:
            name = self._schedule.fault(text)
            entry = {"seconds": time.monotonic() - self._started, "fault": name, "text": text[-TEXT_CHARS:]}
            self._log.append({**entry, "digest": hashlib.sha256(body).hexdigest()[:16]})
        return FAULTS.get(name, OK_REPLY)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that give up are what this is for; anything else is a defect of the server."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class FaultHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept, so that a client may meet a stale one
    server: FaultServer

    def do_GET(self) -> None:
        known = self.path == "/requests"
        self._say(200 if known else 404, {"requests": self.server.requests()} if known else {"error": "no such path"})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:  # the client was killed in the middle of it: no request
            self.close_connection = True
            return None
        if self.path == "/schedule":
            return self._new_schedule(body)
        if self.path != PATH:
            return self._say(404, {"error": {"message": f"no route {self.path}", "type": "invalid_request_error"}})
        return self._serve(self.server.next_fault(body), body)

    def _new_schedule(self, body: bytes) -> None:
        try:
            self.server.start_over(json.loads(body))
        except (ScheduleError, ValueError) as error:
            return self._say(400, {"error": str(error)})
        return self._say(200, {"schedule": "set"})

    def _serve(self, fault: Fault, body: bytes) -> None:
        if fault.way == "hang":
            self.server.stopping.wait()
            self.close_connection = True
        elif fault.way == "reset":
            self._reset()
        else:
            self._send(fault, fault.body(body))

    def _send(self, fault: Fault, reply: bytes) -> None:
        self.send_response(fault.status)
        for name, value in {"Content-Type": "application/json", **fault.headers}.items():
            self.send_header(name, value)
        length = {"cut": 2 * len(reply), "drip": 1_000_000}.get(fault.way, len(reply))
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if fault.way == "drip":
            return self._drip()
        self.close_connection = self.close_connection or fault.way == "cut"
        self.wfile.write(reply)
        return None

    def _drip(self) -> None:
        """White space before a JSON value: no client can tell that none will follow."""
        self.close_connection = True
        while not self.server.stopping.wait(DRIP_SECONDS):
            self.wfile.write(b" ")

    def _reset(self) -> None:
        """RST instead of FIN, as a crashed server or a firewall sends it."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
        self.rfile.close()  # the last hold on the socket; left to the server's own end, a FIN would come first

    def _say(self, status: int, value: Any) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet: /requests has it all."""


def _text(body: bytes) -> str:
    """The messages' texts, or the body as it is."""
    try:
        return "\n".join(str(message.get("content")) for message in json.loads(body)["messages"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return body.decode("utf-8", "replace")


@contextmanager
def fault_server(schedule: Any = None) -> Iterator[FaultServer]:
    """A server of this process on a free loopback port."""
    with FaultServer(schedule) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8902, help="0: a free one")
    parser.add_argument("--schedule", default="[]", help="JSON; none: every request is answered")
    parser.add_argument("--list", action="store_true", help="print the names of the faults, and stop")
    given = parser.parse_args()
    if given.list:
        return print("\n".join(["ok", *FAULTS]))
    try:
        server = FaultServer(json.loads(given.schedule), given.port)
    except ValueError as error:
        sys.exit(f"--schedule: {error}")
    except OSError as error:
        sys.exit(f"cannot listen on port {given.port}: {error}; give another with --port")
    print(server.base_url, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(130)
    return None


if __name__ == "__main__":
    main()
