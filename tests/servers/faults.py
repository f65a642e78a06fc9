"""An OpenAI-compatible server that fails as it is told to, and answers every question with 42 otherwise.

    python tests/servers/faults.py --port 8902                             # base URL: http://127.0.0.1:8902/v1
    python tests/servers/faults.py --port 0 --schedule '["429", "ok", "hang"]'

The names of the faults are in `fault_replies.py`, the forms of a schedule in `loopback.py`. In a test:

    with fault_server(["500"]) as server:
        ...                                     # something asks server.base_url
        assert server.faults() == ["500", "ok", "ok", "ok"]
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.servers.chat_reply import refuse
from tests.servers.fault_replies import FAULTS, OK_REPLY, Fault
from tests.servers.loopback import Answer, Asked, LoopbackServer, read_schedule, running

TEXT_CHARS = 200  # of a request that the log keeps: the end of its last message


class FaultServer(LoopbackServer):
    """A thread a connection; stopping it lets go of those that hang."""

    def __init__(self, schedule: Any = None, port: int = 0, latency_seconds: float = 0.0) -> None:
        super().__init__(port=port)
        self.latency_seconds = latency_seconds  # of each reply, so that there is always something in flight
        self.start_over([] if schedule is None else schedule)

    def start_over(self, schedule: Any) -> None:
        """Count and log from here on."""
        with self._lock:
            self._schedule = read_schedule(schedule, FAULTS)
            self._entries: list[dict[str, Any]] = []
            self._started = time.monotonic()

    @property
    def base_url(self) -> str:
        return f"{super().base_url}/v1"

    def requests(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """What each request got, in the order in which they came: "seconds" since the start, "fault", "text"."""
        with self._lock:
            return list(self._entries)

    @property
    def asked(self) -> int:
        """Requests so far."""
        return len(self.requests())

    def faults(self) -> list[str]:  # type: ignore[override]
        return [entry["fault"] for entry in self.requests()]

    def next_fault(self, body: bytes) -> Fault:
        text = "\n".join(str(message.get("content")) for message in json.loads(body)["messages"])
        with self._lock:
            name = self._schedule.fault(text)
            seconds = time.monotonic() - self._started
            self._entries.append({"seconds": seconds, "fault": name, "text": text[-TEXT_CHARS:]})
        return FAULTS.get(name, OK_REPLY)

    def take(self, asked: Asked) -> Answer:
        if asked.path != "/v1/chat/completions":
            return refuse(404, f"no route {asked.path}")
        fault = self.next_fault(asked.body)
        time.sleep(self.latency_seconds)
        return fault.answer(asked.body)


@contextmanager
def fault_server(schedule: Any = None, latency_seconds: float = 0.0) -> Iterator[FaultServer]:
    """A server of this process on a free loopback port."""
    with running(FaultServer(schedule, latency_seconds=latency_seconds)) as server:
        yield server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8902, help="0: a free one")
    parser.add_argument("--schedule", type=json.loads, help="JSON; none: every request is answered")
    given = parser.parse_args()
    with FaultServer(given.schedule, given.port) as server:
        print(server.base_url, flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
