"""The one way to stop a run early: Ctrl-C, SIGTERM, a budget, too many errors, a server that is down, a full disk.

There are two speeds. *Draining*: nothing new is started, and what is in flight may still finish within `drain_seconds`.
*Now*: what is in flight is cancelled and leaves no record, so that the next session of the run takes it up again.
Tuning registers how its search is broken off: `with stop.in_flight(cancel): …`
"""

import asyncio
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from eval.cli.command import handle_signals
from eval.runs.record import Record
from mas.runtime.event_loop import background_loop
from mas.runtime.terminal import print_line

QUOTA_OR_KEY = "quota_or_key"  # error class: no sample after it would fare better
MIN_JUDGED = 10  # finished samples before a share of errors is more than luck
_CANCEL_SECONDS = 5.0  # for cancelled tasks to end: code that ignores cancellation must not keep the run from ending
_BLOCKED_SECONDS = 1.5  # in which a loop that is not blocked runs the next callback
_MAX_SIGNALS = 2  # the first drains, the second cancels; the next one stops waiting for what is in flight
_FILES_SECONDS = 5.0  # from then on in which further signals do not keep the run's files from being written


class RunStoppedError(Exception):
    """The run stopped and can be resumed; the message says why."""

    def __init__(self, reason: object, *options: str) -> None:
        """`options`: overrides that a resumed run needs, such as `name=ANOTHER_NAME`."""
        super().__init__(str(reason))
        self.options = options


def _start_timer(seconds: float, function: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.start()


class StopController:
    """Decides whether a run ends early, and cancels what is in flight. Any thread may stop it."""

    def __init__(
        self,
        drain_seconds: float = 30.0,
        max_errors: float | None = None,
        max_seconds: float | None = None,
        max_same_errors: int | None = None,
        say: Callable[[str], None] = lambda line: print_line(line, error=True),
    ) -> None:
        self.reason: str | None = None  # the first one given; None: the run continues
        self.interrupted = False  # by a signal: a multirun must not start its next job either
        self._drain_seconds, self._say = drain_seconds, say
        self._max_errors, self._max_seconds = max_errors, max_seconds
        self._same_errors = SameErrors(max_same_errors)
        self.is_cancelled = False  # what is in flight is broken off: no request may be sent
        self._finished = self._errors = self._signals = 0
        self._cancels: list[Callable[[], None]] = []  # of what is in flight
        self._ends_at: float | None = None  # time of the loop at which `max_seconds` are over
        self._waiting_ended_at: float | None = None  # time.monotonic(); None: somebody waits for the run

    def drain(self, reason: str) -> None:
        """Start nothing new and let what is in flight finish, for at most `drain_seconds`."""
        if self.reason is not None:
            return
        self.reason = reason
        if not self._cancels:
            return
        _start_timer(self._drain_seconds, self._cancel)
        self._say(
            f"stopping ({reason}): nothing new is started; what is in flight has {self._drain_seconds:g} s to "
            f"finish. To stop now: Ctrl-C{' again' if self.interrupted else ''}"
        )

    def start_nothing(self, reason: str) -> None:
        """Start nothing new; what is in flight ends when it ends, as in a search, which ends itself."""
        self.reason = self.reason or reason

    def stop_now(self, reason: str) -> None:
        """Start nothing new and cancel what is in flight."""
        self.start_nothing(reason)
        self._cancel()

    def observe(self, record: Record) -> None:
        """Stop if a finished sample is a reason to."""
        self._finished += 1
        same = self._same_errors.observe(record)
        if record.error is None:
            return
        self._errors += 1
        if record.error_class == QUOTA_OR_KEY:
            self.stop_now(describe_quota(record))
        elif exceeds_errors(self._errors, self._finished, self._max_errors):
            share = f"{self._errors} of {self._finished} questions failed"
            self.drain(f"{share} (run.max_errors={self._max_errors:g})")
        elif same is not None:
            self.drain(same)

    def handle_signals(self) -> AbstractContextManager[None]:
        """Let Ctrl-C and its like stop the run inside, not the process."""
        return handle_signals(self._on_signal)

    def end_waiting(self) -> None:
        """Note that nothing is waited for any longer, and the run's files are written next."""
        self._waiting_ended_at = self._waiting_ended_at or time.monotonic()

    def _on_signal(self, name: str) -> None:
        """Drain at the first signal, cancel at the second; KeyboardInterrupt: a third, or one with nothing in flight.

        Whoever awaits the run still writes its files; for some seconds further signals are ignored.
        """
        self.interrupted = True
        self._signals += 1
        ended_at = self._waiting_ended_at
        if ended_at is None and self._cancels and self._signals <= _MAX_SIGNALS:
            with suppress(RuntimeError):  # of a line that is printed while another one is: the signal came in between
                stop = self.drain if self.reason is None else self.stop_now
                stop(f"interrupted by {name}")
            return
        self.end_waiting()
        if ended_at is None or time.monotonic() - ended_at > _FILES_SECONDS:
            raise KeyboardInterrupt(name)

    @contextmanager
    def in_flight(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Run the block as work that `cancel`, called from any thread, breaks off."""
        self._cancels.append(cancel)
        self._waiting_ended_at = None
        try:
            yield
        finally:
            self._cancels.remove(cancel)

    async def supervise(self, workers: Sequence["asyncio.Task[None]"]) -> None:
        """Wait for all of them, for the first that raises, or for `stop_now`; none is running when this returns."""
        loop, thread = asyncio.get_running_loop(), threading.get_ident()
        waiting = asyncio.ensure_future(asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION))

        def cancel_workers() -> None:
            for worker in workers:
                if not worker.cancelling():  # a second time would break off how it ends
                    worker.cancel()

        def cancel() -> None:
            if threading.get_ident() == thread:
                cancel_workers()  # at once: after a turn of the loop they would have sent more requests
            loop.call_soon_threadsafe(waiting.cancel)

        timer = None
        if self._max_seconds is not None:
            message = f"the run has taken {self._max_seconds:g} s (run.max_seconds)"
            self._ends_at = self._ends_at or loop.time() + self._max_seconds  # the first sample may have run alone
            timer = loop.call_at(self._ends_at, self.drain, message)
        try:
            with self.in_flight(cancel):
                if self.reason:  # since the caller looked: the workers are not even begun
                    cancel()
                await asyncio.wait([waiting])
        finally:
            if timer:
                timer.cancel()
            waiting.cancel()
            cancel_workers()
            await asyncio.wait(workers, timeout=_CANCEL_SECONDS)
        for worker in workers:
            if worker.done() and not worker.cancelled() and (error := worker.exception()):
                raise error

    def _cancel(self) -> None:
        self.is_cancelled = True
        for cancel in list(self._cancels):
            cancel()
        if self._cancels:
            _start_timer(_CANCEL_SECONDS, self._leave_blocked_loop)

    def _leave_blocked_loop(self) -> None:
        """Stop waiting for what is in flight, as a third signal does, if code blocks the loop that would cancel it."""
        is_alive = threading.Event()
        background_loop().call_soon_threadsafe(is_alive.set)
        main = threading.main_thread().ident
        if not is_alive.wait(_BLOCKED_SECONDS) and self._cancels and main is not None:
            self._signals = _MAX_SIGNALS
            signal.pthread_kill(main, signal.SIGINT)


def exceeds_errors(errors: int, finished: int, max_errors: float | None) -> bool:
    """Return whether a run is hopeless; `max_errors`: from 1 on a number, below the share that may fail."""
    if max_errors is None:
        return False
    if max_errors >= 1:
        return errors >= max_errors
    return finished >= MIN_JUDGED and errors > max_errors * finished


def describe_quota(record: Record) -> str:
    return f"the model's provider refuses further requests: quota exhausted or key rejected ({record.error})"


class SameErrors:
    """Detects a run that cannot succeed: its first answers all fail in the same way. Not thread-safe."""

    def __init__(self, max_same_errors: int | None) -> None:
        self._max = max_same_errors  # None: no number is enough
        self._alike: list[tuple[str | None, ...]] = []

    def observe(self, record: Record) -> str | None:
        """Count a record; return the reason to stop if it was the last one needed."""
        if self._max is None:
            return None
        message = re.sub(r"[^\s]*\d[^\s]*", "#", record.error or "")  # ids of requests, times and addresses differ
        self._alike.append((record.error_class, record.error_component, message))
        if record.error is None or len(set(self._alike)) > 1:
            self._max = None
        elif len(self._alike) >= self._max:
            n = len(self._alike)
            return f"the first {n} answers all failed in the same way: {record.error} (run.max_same_errors)"
        return None
