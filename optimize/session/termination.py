"""The ways in which a tuning run ends before its verdict, and its exit codes."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from eval.cli.command import FAILURES, FINISHED, STOPPED, handle_signals
from optimize.gate.gate import FinishReason

BROKEN: tuple[FinishReason, ...] = ("metric_errors", "reflection_unparsable")  # the run could not judge any prompts


class EarlyVerdictError(Exception):
    """The run ends in the middle of a phase, for a reason that is its verdict."""

    def __init__(self, finish_reason: FinishReason, sentence: str) -> None:
        super().__init__(sentence)
        self.finish_reason: FinishReason = finish_reason


class RunStoppedError(Exception):
    """The run stopped and can be resumed; the message is the reason."""

    def __init__(self, reason: str, *options: str) -> None:
        """`options`: required to resume it, such as `name=ANOTHER_NAME`."""
        super().__init__(reason)
        self.options = options


def compute_exit_code(verdict: Mapping[str, object]) -> int:
    """Return the exit code of a run with this verdict. A set that is rejected by the gate gives 0, as a published one.

    See `eval.cli.command` for the codes.
    """
    if verdict["resumable"]:
        return STOPPED
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED


_SIGNALS_IN_ORDER = 2  # signals that end the run in order; the next one ends the process


class StopRequest:
    """A request to stop. First, no new requests are sent; at a second signal or after `drain_seconds`, `cancel()`."""

    def __init__(self, drain_seconds: float, cancel: Callable[[], None]) -> None:
        self.reason: str | None = None  # the first one
        self.interrupted = False  # by a signal
        self._drain_seconds, self._cancel = drain_seconds, cancel
        self._signals = 0
        self._timer: threading.Timer | None = None

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Handle Ctrl-C and the like inside the block."""
        try:
            with handle_signals(self._receive):
                yield
        finally:
            if self._timer:
                self._timer.cancel()

    def _receive(self, reason: str) -> None:
        self.interrupted = True
        self._signals += 1
        self.reason = self.reason or f"interrupted by {reason}"
        if self._signals > _SIGNALS_IN_ORDER:
            raise KeyboardInterrupt
        if self._signals == _SIGNALS_IN_ORDER:
            self._cancel()
            return
        print(
            f"stopping ({self.reason}): no new requests are sent; those in flight have {self._drain_seconds:g} s to "
            "finish. To stop now: Ctrl-C again",
            file=sys.stderr,
            flush=True,
        )
        self._timer = threading.Timer(self._drain_seconds, self._cancel)
        self._timer.daemon = True
        self._timer.start()
