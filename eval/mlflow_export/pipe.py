"""The exporter's tie to the run that it sends: what goes through the pipe between the two processes.

The first line is the `ExportRequest`; the line `finished` says that the run has ended and its files are written; an end
without it, that the run's process has died.

    end = RunEnd(sys.stdin)
    end.over.wait()
    end.died            # False
"""

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from threading import Event, Thread
from typing import Any, TextIO

FINISHED = "finished"


@dataclass
class ExportRequest:
    """What the run's process tells the exporter; secrets go through the pipe and the environment alone."""

    tracking: dict[str, Any]  # fields of LocalTracking or ServerTracking
    local: bool  # LocalTracking
    secrets: list[str] = field(default_factory=list)  # longest first

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    def redact(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text

    def settings(self) -> Any:
        from eval.config.tracking import LocalTracking, ServerTracking

        return (LocalTracking if self.local else ServerTracking)(**self.tracking)


class RunEnd:
    """When the run is over, told by standard input."""

    def __init__(self, source: TextIO) -> None:
        self.over = Event()
        self.died = True  # until the run's process has said otherwise
        self._source = source
        self._at = 0.0
        Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        with suppress(OSError, ValueError):
            self.died = self._source.readline().strip() != FINISHED
        self._at = time.monotonic()
        self.over.set()

    @property
    def seconds_since(self) -> float:
        return time.monotonic() - self._at if self.over.is_set() else 0.0
