"""Event loop whose clock stands still while nothing can run on it, and the watch that says why.

A process that was stopped (SIGSTOP, a debugger, a machine without CPU time) and a coroutine that blocks the loop both
let every timeout expire at once, although the replies have long arrived. On a SteadyLoop such a pause does not count:
timeouts, waits and the deadlines of samples, which all use the loop's clock, are extended by it.

    loop = SteadyLoop(report_block=print, report_pause=print)
    loop.time()                      # monotonic seconds without the pauses
    share_clock(loop)
    now()                            # the same, from any thread

The watch is a thread. It finds the callback that blocks the loop: the line that it is at, and its context. Code that
also holds Python's lock, such as a long regular expression, stops the watch as well: then only the length is known.
"""

import asyncio
import contextvars
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

TICKS = 6  # of the watch within `pause_seconds`
TIMER_TICK_SECONDS = 0.25  # so much of a SteadyTimer's time a pause uses up at most
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


@dataclass(frozen=True)
class WatchTimes:
    """Times of a SteadyLoop's watch."""

    beat_seconds: float = 0.5  # an idle loop wakes up so often
    pause_seconds: float = 1.5  # a longer silence of the loop is a pause
    reported_seconds: float = 5.0  # a longer one is reported while it lasts


@dataclass(frozen=True)
class BlockingCall:
    """A callback that blocks the loop."""

    where: str  # file:line in function
    context: contextvars.Context  # as it was then


DEFAULT_TIMES = WatchTimes()


class SteadyLoop(asyncio.SelectorEventLoop):
    """Event loop whose `time()` leaves out the pauses. Only its own thread may call `time()`."""

    def __init__(
        self,
        report_block: Callable[[BlockingCall], None],
        report_pause: Callable[[float, BlockingCall | None], None],
        times: WatchTimes = DEFAULT_TIMES,
    ) -> None:
        """Create the loop.

        Args:
            report_block: called in the thread of the watch, while the loop is blocked, after `times.reported_seconds`.
            report_pause: called on the loop after a pause, with its seconds and what blocked the loop; None if the
                process was stopped.
            times: of the watch.
        """
        self.paused_seconds = 0.0  # all pauses together
        self._seen_at = time.monotonic()  # last sign of life
        self._blocking_call: BlockingCall | None = None
        self._report_block, self._report_pause, self._times = report_block, report_pause, times
        self._watcher: threading.Thread | None = None
        super().__init__()
        self.call_soon(self._beat)

    def run_forever(self) -> None:
        self._seen_at = time.monotonic()
        if self._watcher is None:
            watched = threading.get_ident()
            self._watcher = threading.Thread(target=self._watch, args=(watched,), name="mas-watch", daemon=True)
            self._watcher.start()
        super().run_forever()

    def time(self) -> float:
        seen_at, seconds = self._seen_at, time.monotonic()
        blocking_call, self._blocking_call = self._blocking_call, None
        if (silent := seconds - seen_at) > self._times.pause_seconds:
            paused = (
                silent - self._times.beat_seconds
            )  # so long it may have slept before; and the clock never stops for good
            self.paused_seconds += paused
            self.call_soon(self._report_pause, paused, blocking_call)
        self._seen_at = seconds  # after the pause has been counted, for `estimate_time` in other threads
        return seconds - self.paused_seconds

    def estimate_time(self) -> float:
        """Return what `time` would return now; from any thread, also while a pause is not noticed yet."""
        seconds, seen_at = time.monotonic(), self._seen_at
        if self.is_running() and seconds - seen_at > self._times.pause_seconds:
            seconds = seen_at + self._times.beat_seconds
        return seconds - self.paused_seconds

    def is_blocked(self) -> bool:
        """Return whether the loop could not run for a while; from any thread."""
        return self.is_running() and time.monotonic() - self._seen_at > self._times.pause_seconds

    def _beat(self) -> None:
        self.call_later(self._times.beat_seconds, self._beat)

    def _watch(self, thread_id: int) -> None:
        """Look for blocking callbacks until the loop is closed.

        Ticks are counted and not seconds, because a stopped process has none.
        """
        seen_at, silent_ticks, tick_seconds = 0.0, 0, self._times.pause_seconds / TICKS
        nap = threading.Event()  # unlike time.sleep, it waits under clocks that somebody has changed, too
        ticks_to_report = round(self._times.reported_seconds / tick_seconds)
        while not self.is_closed():
            nap.wait(tick_seconds)
            silent_ticks = silent_ticks + 1 if self._seen_at == seen_at and self.is_running() else 0
            seen_at = self._seen_at
            if silent_ticks == TICKS // 2:  # in time for every pause
                self._blocking_call = _find_blocking_call(thread_id)
            if silent_ticks == ticks_to_report and (found := _find_blocking_call(thread_id)):
                self._report_block(found)


_shared: SteadyLoop | None = None


def share_clock(loop: SteadyLoop) -> None:
    """Let `now` return the time of this loop in all threads that have no loop of their own."""
    global _shared
    _shared = loop


def now() -> float:
    """Return the seconds of the running loop's clock; in other threads, of the shared one."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return _shared.estimate_time() if _shared else time.monotonic()


class SteadyTimer(threading.Timer):
    """A `threading.Timer` that does not expire because the process was stopped.

    It counts ticks and not seconds, because a stopped process has none; unlike the loop's clock, it also runs while a
    coroutine blocks the loop.
    """

    def run(self) -> None:
        left = self.interval
        while left > 0 and not self.finished.wait(min(left, TIMER_TICK_SECONDS)):
            left -= TIMER_TICK_SECONDS
        if not self.finished.is_set():
            self.function(*self.args, **self.kwargs)
        self.finished.set()


def _find_blocking_call(thread_id: int) -> BlockingCall | None:
    """Return the callback that the loop of a thread is in; None if it is in none.

    Its place is the innermost line outside of libraries, where somebody can change something.
    """
    frames = list(_iterate_frames(sys._current_frames().get(thread_id)))
    if not frames or frames[-1].f_code is not asyncio.Handle._run.__code__:
        return None
    inner = [each for each in frames if not each.f_code.co_filename.startswith(_LIBRARIES)] or frames
    place = f"{inner[0].f_code.co_filename}:{inner[0].f_lineno} in {inner[0].f_code.co_name}"
    return BlockingCall(place, frames[-1].f_locals["self"]._context.copy())


def _iterate_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a thread from the innermost one to that of asyncio's callback."""
    while frame is not None:
        yield frame
        if frame.f_code is asyncio.Handle._run.__code__:
            return
        frame = frame.f_back
