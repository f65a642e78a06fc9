"""Whether a tuning run is to end early, and why: Ctrl-C, SIGTERM, a model server that takes no more calls.

halt = Halt(drain_seconds=30, cancel=trials.cancel)
with halt.on_signals():
    …                        # the search asks halt.reason before each answer
halt.reason                  # "interrupted by Ctrl-C", or None
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eval.interrupts import heard_by

_PATIENCE = 2  # signals that end the run in order; the next one ends the process


class Halt:
    """Once: nothing new is asked, and what is in flight may finish. Again, or `drain_seconds` later: cancelled."""

    def __init__(self, drain_seconds: float, cancel: Callable[[], None]) -> None:
        self.reason: str | None = None  # the first one given
        self.interrupted = False  # by a signal
        self._drain_seconds, self._cancel = drain_seconds, cancel
        self._signals = 0
        self._timer: threading.Timer | None = None

    def ask(self, reason: str) -> None:
        """Start nothing new."""
        self.reason = self.reason or reason

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Ctrl-C and its like are its own inside."""
        try:
            with heard_by(self._signalled):
                yield
        finally:
            if self._timer:
                self._timer.cancel()

    def _signalled(self, reason: str) -> None:
        self.interrupted = True
        self._signals += 1
        self.ask(f"interrupted by {reason}")
        if self._signals > _PATIENCE:
            raise KeyboardInterrupt
        if self._signals == _PATIENCE:
            self._cancel()
            return
        print(
            f"stopping ({self.reason}): nothing new is asked; what is in flight has {self._drain_seconds:g} s to "
            "finish. To stop now: Ctrl-C again",
            file=sys.stderr,
            flush=True,
        )
        self._timer = threading.Timer(self._drain_seconds, self._cancel)
        self._timer.daemon = True
        self._timer.start()
