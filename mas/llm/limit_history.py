"""How the limit of requests in flight went, for the report: when, how many, why.

history = History()
history.note(now=100.0, limit=32, reason="start")
history.entries()                              # [{"seconds": 0.0, "limit": 32, "reason": "start"}]
"""

from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

LENGTH = 1_000  # the newest; "start" is kept beside them
GROWTH_SECONDS = 1.0  # growth is one entry a second, with the limit at its end


@dataclass
class Entry:
    seconds: float  # since the start
    limit: int
    reason: str


class History:
    def __init__(self) -> None:
        self._began: float | None = None
        self._start: list[Entry] = []
        self._entries: deque[Entry] = deque(maxlen=LENGTH - 1)
        self._growth_noted = 0.0

    @property
    def begun(self) -> bool:
        return self._began is not None

    def note(self, now: float, limit: int, reason: str) -> None:
        """`now`: monotonic seconds; the first note is the start."""
        if self._began is None:
            self._began = now
            self._start.append(Entry(0.0, limit, reason))
            return
        entry = Entry(round(now - self._began, 3), limit, reason)
        last = self._entries[-1] if self._entries else None
        if reason == "growth" and last and last.reason == "growth" and now < self._growth_noted + GROWTH_SECONDS:
            self._entries[-1] = entry
            return
        self._growth_noted = now
        self._entries.append(entry)

    def entries(self) -> list[dict[str, Any]]:
        return [asdict(entry) for entry in [*self._start, *self._entries]]
