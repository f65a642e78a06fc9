"""How a tuning run may end: by its verdict, or without one."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from eval.cli.command import FAILURES, FINISHED, STOPPED, handle_signals
from optimize.gate.gate import FinishReason

BROKEN: tuple[FinishReason, ...] = ("metric_errors", "reflection_unparsable")  # over, and no prompts were judged


def compute_exit_code(verdict: Mapping[str, Any]) -> int:
    """Of a run that has this verdict (`eval.cli.command`): an honest no is 0, and nothing else may be taken for one."""
    if verdict["resumable"]:
        return STOPPED
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED


class EarlyVerdictError(Exception):
    """The run has come to its end in the middle of a phase, for a reason that is a result."""

    def __init__(self, finish_reason: FinishReason, sentence: str) -> None:
        super().__init__(sentence)
        self.finish_reason: FinishReason = finish_reason


class RunStoppedError(Exception):
    """It stopped and can go on: the message says why."""

    def __init__(self, why: str, *options: str) -> None:
        """`options`: without which it cannot go on, such as `name=ANOTHER_NAME`."""
        super().__init__(why)
        self.options = options


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
            with handle_signals(self._signalled):
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
