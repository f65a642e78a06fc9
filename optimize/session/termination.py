"""How a tuning run may end: by its verdict, or without one."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.cli.signals import handle_signals
from eval.runs.record import Record
from eval.workflows.resume import RETRIED

FinishReason = Literal[
    "improved",  # published
    "not_significant",
    "no_accepted_candidate",
    "budget",
    "leak_blocked",
    "too_long",
    "format_loss",
    "metric_errors",
    "reflection_unparsable",
]

BROKEN: tuple[FinishReason, ...] = ("metric_errors", "reflection_unparsable")  # over, and no prompts were judged


def exit_code(verdict: Mapping[str, Any]) -> int:
    """Of a run that has this verdict (`eval.cli.command`): an honest no is 0, and nothing else may be taken for one."""
    if verdict["resumable"]:
        return STOPPED
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED


class EndedError(Exception):
    """The run has come to its end in the middle of a phase, for a reason that is a result."""

    def __init__(self, finish_reason: FinishReason, sentence: str) -> None:
        super().__init__(sentence)
        self.finish_reason: FinishReason = finish_reason


class HaltedError(Exception):
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


LEAST = 10  # answers; an outage that is over sooner costs no more than that


def failed_by_server(record: Record) -> bool:
    """It could not be reached, or failed, after all retries: that says nothing about the prompts."""
    return record.error_class in RETRIED


class FailuresInARow:
    """Not thread-safe."""

    def __init__(self, concurrency: int, always_failing: int = 0) -> None:
        """
        Args:
            concurrency: answers at once, of which all fail together.
            always_failing: questions that the server may fail each time without being taken to be down.
        """
        self._allowed, self._allowed_again = max(LEAST, 2 * concurrency), max(LEAST, always_failing + 1)
        self._failures = 0
        self._again: set[str] = set()  # questions

    def heed(self, record: Record) -> str | None:
        """Why to stop, if that was one too many; the run can go on later, and asks those again."""
        if not failed_by_server(record):
            self._failures, self._again = 0, set()
        elif record.attempt == 1:
            self._failures += 1
        else:
            self._again.add(record.sample_id)
        if self._failures >= self._allowed:
            return f"the model's server has failed {self._failures} answers in a row ({record.error})"
        if len(self._again) >= self._allowed_again:
            return f"the model's server has failed {len(self._again)} questions in a row once more ({record.error})"
        return None
