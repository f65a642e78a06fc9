"""When a run ends before its questions do: Ctrl-C, SIGTERM, a budget, too many errors, a disk that is full.

There are two ways. *Draining*: nothing new is started, and what is in flight may still finish within `drain_seconds`.
*Now*: what is in flight is cancelled and leaves no record, so that `run.resume` takes it up again.

    stop = Stop(drain_seconds=30)
    with signals_to(stop):
        run_blocking(runner.run(tries))      # its workers ask stop.reason before they begin another question
    stop.reason                              # "interrupted by Ctrl-C", or None
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from eval.cli.command import handle_signals
from eval.runs.record import Record

QUOTA_OR_KEY = "quota_or_key"  # error class: no question after it would fare better
SHARE_JUDGED_FROM = 10  # finished questions; before that a share of errors is luck
_LAST_WORDS_SECONDS = 5.0  # for what is cancelled: code that takes no notice of it must not keep the run from ending
_PATIENCE = 2  # signals that end the run in order; the next one ends the process


def to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Stop:
    """Whether one run is to end early, and why. Any thread may ask for it; `until_over` belongs to the run's loop."""

    def __init__(
        self,
        drain_seconds: float = 30.0,
        fail_fast: bool = False,
        max_errors: float | None = None,
        max_seconds: float | None = None,
        say: Callable[[str], None] = to_stderr,
    ) -> None:
        self.reason: str | None = None  # the first one given; None: the run goes on
        self.interrupted = False  # by a signal: a multirun must not go on to its next job either
        self._drain_seconds, self._say = drain_seconds, say
        self._fail_fast, self._max_errors, self._max_seconds = fail_fast, max_errors, max_seconds
        self._finished = self._errors = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._now: asyncio.Event | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._signals = 0

    def drain(self, reason: str) -> None:
        """Start nothing new and let what is in flight finish, as far as `drain_seconds` allow."""
        if self.reason is None:
            self.reason = reason
            self._on_loop(self._drain)

    def now(self, reason: str) -> None:
        """Start nothing new and cancel what is in flight."""
        self.reason = self.reason or reason
        self._on_loop(self._end)

    def heed(self, record: Record) -> None:
        """See whether a question that has just been kept is a reason to stop."""
        self._finished += 1
        if record.error is None:
            return
        self._errors += 1
        if record.error_class == QUOTA_OR_KEY:
            self.now(f"the model's provider takes no more calls, for want of quota or for the key ({record.error})")
        elif self._fail_fast:
            self.now(f"question {record.sample_id} failed ({record.error}) and run.fail_fast is on")
        elif too_many_errors(self._errors, self._finished, self._max_errors):
            self.drain(f"{self._errors} of {self._finished} questions failed (run.max_errors={self._max_errors:g})")

    def signalled(self, reason: str) -> None:
        """Once: drain. Again: now. A third time, or with nothing to stop: KeyboardInterrupt here and now."""
        self.interrupted = True
        self._signals += 1
        if self._loop is None or self._signals > _PATIENCE:
            raise KeyboardInterrupt
        if self.reason is None:
            self.drain(reason)
        else:
            self.now(reason)

    async def until_over(self, workers: Sequence[asyncio.Task[None]]) -> None:
        """Wait for all of them, or for the first that raises, or for `now`; none is at work when this returns.

        Raises:
            whatever a worker raised.
        """
        self._loop, self._now = asyncio.get_running_loop(), asyncio.Event()
        if self.reason:
            self._now.set()
        if self._max_seconds is not None:
            reason = f"the run has taken {self._max_seconds:g} s (run.max_seconds)"
            self._timers.append(self._loop.call_later(self._max_seconds, self.drain, reason))
        waits = [
            asyncio.ensure_future(asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)),
            asyncio.ensure_future(self._now.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._loop = None
            for task in (*waits, *workers):
                task.cancel()
            for timer in self._timers:
                timer.cancel()
            await asyncio.wait(workers, timeout=_LAST_WORDS_SECONDS)
        for worker in workers:
            if worker.done() and not worker.cancelled() and (error := worker.exception()):
                raise error

    def _on_loop(self, call: Callable[[], None]) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(call)

    def _drain(self) -> None:
        if self._loop is None:
            return
        self._timers.append(self._loop.call_later(self._drain_seconds, self._end))
        self._say(
            f"stopping ({self.reason}): nothing new is started; what is in flight has {self._drain_seconds:g} s to "
            f"finish. To stop now: Ctrl-C{' again' if self.interrupted else ''}"
        )

    def _end(self) -> None:
        if self._now is not None:
            self._now.set()


@contextmanager
def signals_to(stop: Stop) -> Iterator[None]:
    """Ctrl-C and its like are `stop`'s inside."""
    with handle_signals(lambda reason: stop.signalled(f"interrupted by {reason}")):
        yield


def too_many_errors(errors: int, finished: int, max_errors: float | None) -> bool:
    """Whether a run is hopeless. From 1 on `max_errors` is the number of errors to stop at; below, the share of the
    finished questions that errors may be.
    """
    if max_errors is None:
        return False
    if max_errors >= 1:
        return errors >= max_errors
    return finished >= SHARE_JUDGED_FROM and errors > max_errors * finished
