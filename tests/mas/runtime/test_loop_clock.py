"""The event loop's clock, which leaves out the time in which nothing could run on the loop."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest

from mas.runtime import event_loop, loop_clock
from mas.runtime.event_loop import background_loop, settle_pause, warn_of_block
from mas.runtime.loop_clock import DEFAULT_TIMES, BlockingCall, SteadyLoop, SteadyTimer, WatchTimes, now, share_clock
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace
from tests.eval.command_line import without_pauses

PROJECT = Path(__file__).parents[3]
BLOCKED_SECONDS = 1.2
T = TypeVar("T")
WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="nothing")


TIMES = WatchTimes(beat_seconds=0.1, pause_seconds=0.6, reported_seconds=0.8)


class Reports:
    def __init__(self) -> None:
        self.blocks: list[BlockingCall] = []
        self.pauses: list[tuple[float, BlockingCall | None]] = []
        self.loop = SteadyLoop(self.blocks.append, lambda seconds, call: self.pauses.append((seconds, call)), TIMES)


@pytest.fixture
def reports() -> Iterator[Reports]:
    found = Reports()
    yield found
    found.loop.close()


async def block(seconds: float = BLOCKED_SECONDS) -> None:
    time.sleep(seconds)  # noqa: ASYNC251


def test_a_timeout_is_extended_by_the_time_in_which_the_loop_was_blocked(reports: Reports) -> None:
    async def work() -> float:
        async with asyncio.timeout(0.5):
            began = now()
            await asyncio.gather(asyncio.sleep(0.2), block())
            return now() - began

    began = time.monotonic()
    assert 0.2 <= reports.loop.run_until_complete(work()) < 0.5
    assert time.monotonic() - began > BLOCKED_SECONDS
    ((seconds, _),) = reports.pauses
    assert BLOCKED_SECONDS - TIMES.beat_seconds <= seconds < BLOCKED_SECONDS + 1


def test_the_blocking_line_and_its_context_are_found_while_it_lasts(reports: Reports) -> None:
    async def work() -> None:
        WORD.set("of the blocker")
        await block()

    async def both() -> None:
        WORD.set("of another")
        await asyncio.gather(asyncio.sleep(0.1), asyncio.create_task(work()))
        await asyncio.sleep(0)

    reports.loop.run_until_complete(both())
    ((_, after),) = reports.pauses
    assert after is not None
    for call in (*reports.blocks, after):
        line = block.__code__.co_firstlineno + 1
        assert (call.where, call.context[WORD]) == (f"{__file__}:{line} in block", "of the blocker")
    assert len(reports.blocks) == 1


def test_an_idle_and_a_busy_loop_have_no_pauses(reports: Reports) -> None:
    async def work() -> None:
        await asyncio.sleep(0.8)
        until = time.monotonic() + 0.8
        while time.monotonic() < until:
            time.sleep(0.02)  # noqa: ASYNC251
            await asyncio.sleep(0)

    reports.loop.run_until_complete(work())
    assert (reports.blocks, reports.pauses) == ([], [])


def test_other_threads_read_the_same_clock(reports: Reports) -> None:
    async def work() -> tuple[float, float]:
        await block()
        await asyncio.sleep(0)
        return now(), await asyncio.to_thread(now)

    share_clock(reports.loop)
    try:
        here, there = reports.loop.run_until_complete(work())
    finally:
        share_clock(background_loop())
    assert 0 <= there - here < 0.5


def test_other_threads_do_not_see_a_pause_that_the_loop_has_not_noticed_yet(reports: Reports) -> None:
    seen: list[float] = []
    share_clock(reports.loop)
    try:
        began = reports.loop.time()
        threading.Timer(0.9, lambda: seen.append(now() - began)).start()
        reports.loop.run_until_complete(block())
    finally:
        share_clock(background_loop())
    assert seen[0] < 0.5


def test_a_blocked_loop_can_be_recognised_from_outside(reports: Reports) -> None:
    seen: list[bool] = [reports.loop.is_blocked()]
    threading.Timer(0.9, lambda: seen.append(reports.loop.is_blocked())).start()
    reports.loop.run_until_complete(block())
    reports.loop.run_until_complete(asyncio.sleep(0.05))
    assert [*seen, reports.loop.is_blocked()] == [False, True, False]


def answer_in_turn(first: SampleContext, second: SampleContext, trace: Trace) -> list[str]:
    """The first sample blocks the loop that both share; each may take half a second."""

    async def answer(context: SampleContext, *, blocking: bool) -> str:
        context.deadline = now() + 0.5
        try:
            with use_context(context):
                async with context.within_deadline(), context.within_working_time():
                    if blocking:
                        with record_trace(trace):
                            await block()
                    await asyncio.sleep(0.2)
        except LimitReachedError as error:
            return error.limit
        return "answered"

    async def both() -> list[str]:
        waiting = asyncio.create_task(answer(second, blocking=False))  # begins before the loop is blocked
        return [await asyncio.create_task(answer(first, blocking=True)), await waiting]

    return run_on_a_loop(both())


def run_on_a_loop(work: Coroutine[object, None, T]) -> T:
    """Run it on a loop like that of all agents, except for the times."""
    with closing(SteadyLoop(warn_of_block, settle_pause, TIMES)) as loop:
        return loop.run_until_complete(work)


def test_only_the_sample_that_blocked_the_loop_pays_for_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "DEFAULT_TIMES", TIMES)
    logged: list[tuple[str, str, str]] = []
    trace = Trace("thread", lambda level, event, fields: logged.append((level, event, str(fields["where"]))))
    first, second = SampleContext(SampleKey("q1")), SampleContext(SampleKey("q2"))
    assert answer_in_turn(first, second, trace) == ["deadline_seconds", "answered"]
    where = f"{__file__}:{block.__code__.co_firstlineno + 1} in block"
    assert logged == [("warning", "event loop blocked", where)]
    warning = f"warning: {where} (question 'q1') has blocked the event loop for 0.8 s: everything else waits for it"
    assert capsys.readouterr().err.startswith(warning)


def test_its_working_time_is_charged_as_well() -> None:
    limits = SampleLimits(working_seconds=0.5)
    first, second = SampleContext(SampleKey("q1"), limits), SampleContext(SampleKey("q2"), limits)
    first_limit, second_limit = answer_in_turn(first, second, Trace("thread"))
    assert (first_limit in ("deadline_seconds", "working_seconds"), second_limit) == (True, "answered")


@pytest.mark.slow
def test_a_loop_that_is_blocked_again_and_again_still_ends_the_sample_that_does_it() -> None:
    async def block_for_ever() -> None:
        for _ in range(20):
            await block(0.8)
            await asyncio.sleep(0)

    async def work() -> None:
        context = SampleContext(SampleKey("q1"), deadline=now() + 2.0)
        with use_context(context):
            async with context.within_deadline():
                await asyncio.create_task(block_for_ever())

    began = time.monotonic()
    with pytest.raises(LimitReachedError, match="the question is over"):
        run_on_a_loop(work())
    assert time.monotonic() - began < 8


STOPPED = """
import asyncio, sys
from mas.runtime import event_loop
from mas.runtime.loop_clock import WatchTimes
event_loop.DEFAULT_TIMES = WatchTimes(reported_seconds=1.0)
async def work():
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    async with asyncio.timeout(1.0):
        writer.write(b"ask")
        print("asked", flush=True)
        print((await reader.readexactly(6)).decode(), flush=True)
    writer.close()
event_loop.run_blocking(work())
"""


@pytest.mark.slow
def test_a_process_that_was_stopped_extends_its_deadlines_by_the_pause() -> None:
    """The reply comes while the process is stopped, and the timeout would have expired."""
    server_ready, port = threading.Event(), 0

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        await asyncio.sleep(0.5)
        writer.write(b"answer")
        await reader.read()
        writer.close()

    async def serve() -> None:
        nonlocal port
        server = await asyncio.start_server(reply, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server_ready.set()
        await asyncio.to_thread(done.wait, 60)
        server.close()

    done = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert server_ready.wait(20)
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(port)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(process.pid, signal.SIGCONT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        done.set()
        thread.join(20)
    assert out == "answer\n"
    assert err.startswith("warning: this process could not run for ") and without_pauses(err) == "", err


class HandClock:
    """`time.monotonic` that only a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    found = HandClock()
    monkeypatch.setattr(loop_clock, "time", found)
    return found


PAUSES = list[tuple[float, BlockingCall | None]]


def make_loop(pauses: PAUSES) -> SteadyLoop:
    """A loop with a beat of 0.5 s, whose pauses are longer than 1.5 s."""
    return SteadyLoop(lambda call: None, lambda seconds, call: pauses.append((seconds, call)), DEFAULT_TIMES)


def test_a_pause_is_left_out_but_for_a_beat_and_a_shorter_silence_is_none(clock: HandClock) -> None:
    pauses: PAUSES = []
    blocking = BlockingCall("here", contextvars.Context())
    with closing(make_loop(pauses)) as loop:
        clock.seconds = 101.5
        assert (loop.time(), loop.paused_seconds) == (101.5, 0.0)
        clock.seconds, loop._blocking_call = 103.25, blocking
        assert (loop.time(), loop.paused_seconds) == (102.0, 1.25)
        clock.seconds = 103.5
        assert loop.time() == 102.25
        clock.seconds = 106.0
        assert (loop.time(), loop.paused_seconds) == (102.75, 3.25)
        loop.run_until_complete(asyncio.sleep(0))
    assert pauses == [(1.25, blocking), (2.0, None)]


def test_what_blocked_the_loop_for_a_moment_is_forgotten(clock: HandClock) -> None:
    pauses: PAUSES = []
    with closing(make_loop(pauses)) as loop:
        loop._blocking_call = BlockingCall("here", contextvars.Context())
        clock.seconds = 101.0
        loop.time()
        clock.seconds = 104.0
        loop.time()
        loop.run_until_complete(asyncio.sleep(0))
    assert pauses == [(2.5, None)]


@pytest.mark.parametrize(
    ("running", "silent_seconds", "estimate", "blocked"),
    [
        (True, 1.5, 104.0 + 1.5 - 2.5, False),
        (True, 1.75, 104.0 + 0.5 - 2.5, True),
        (False, 1.75, 104.0 + 1.75 - 2.5, False),
    ],
)
def test_from_outside_a_silent_loop_stands_still_while_it_runs(
    clock: HandClock, running: bool, silent_seconds: float, estimate: float, blocked: bool
) -> None:
    with closing(make_loop([])) as loop:
        clock.seconds = 103.0
        loop.time()  # a pause of 2.5 seconds
        clock.seconds = 104.0
        loop.time()
        clock.seconds += silent_seconds
        try:
            loop.is_running = lambda: running  # type: ignore[method-assign]
            assert (loop.estimate_time(), loop.is_blocked()) == (estimate, blocked)
        finally:
            del loop.is_running


def test_a_loop_that_begins_to_run_has_not_paused_before(clock: HandClock) -> None:
    pauses: PAUSES = []
    with closing(make_loop(pauses)) as loop:
        clock.seconds = 200.0
        loop.run_until_complete(asyncio.sleep(0))
        assert (pauses, loop.paused_seconds) == ([], 0.0)


def test_a_thread_without_any_steady_loop_reads_the_clock_itself(
    clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_clock, "_shared", None)
    assert now() == 100.0
    with closing(make_loop([])) as loop:
        loop.paused_seconds = 7.0
        share_clock(loop)
        assert now() == 93.0


def test_the_watch_looks_once_in_time_for_a_pause_and_reports_a_long_one_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ticks of 0.25 s: it looks at the third silent one and reports at the twentieth."""
    reported: list[tuple[int, BlockingCall]] = []
    looked: list[int] = []
    waits: list[float] = []
    blocking = BlockingCall("here", contextvars.Context())
    loop = SteadyLoop(lambda call: reported.append((len(waits), call)), lambda *_: None, DEFAULT_TIMES)

    def look(thread_id: int) -> BlockingCall:
        assert thread_id == 17
        looked.append(len(waits))
        return blocking

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) in (1, 3, 40):
            loop._seen_at += 1.0  # a sign of life before these ticks
        if len(waits) == 50:
            loop.close()

    monkeypatch.setattr(loop_clock, "_find_blocking_call", look)
    monkeypatch.setattr(loop_clock, "threading", SimpleNamespace(Event=lambda: SimpleNamespace(wait=wait)))
    loop.is_running = lambda: len(waits) < 44  # type: ignore[method-assign]
    try:
        loop._watch(17)
    finally:
        del loop.is_running
    assert set(waits) == {0.25} and len(waits) == 50
    assert looked == [6, 23, 43]
    assert reported == [(23, blocking)]
    assert loop._blocking_call is blocking


class Naps:
    """The event of a timer that notes how long it is waited for, and is set at the given wait."""

    def __init__(self, set_at: int | None) -> None:
        self.set_at, self.seconds, self.is_done = set_at, list[float](), False

    def wait(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        self.is_done = len(self.seconds) == self.set_at
        return self.is_done

    def is_set(self) -> bool:
        return self.is_done

    def set(self) -> None:
        self.is_done = True


@pytest.mark.parametrize(
    ("seconds", "cancelled_at", "waits", "called"),
    [
        (0.625, None, [0.25, 0.25, 0.125], 1),
        (0.25, None, [0.25], 1),
        (0.0, None, [], 1),
        (0.625, 2, [0.25, 0.25], 0),
        (0.625, 3, [0.25, 0.25, 0.125], 0),
    ],
)
def test_a_steady_timer_counts_ticks(seconds: float, cancelled_at: int | None, waits: list[float], called: int) -> None:
    calls: list[tuple[object, object]] = []
    timer = SteadyTimer(seconds, lambda first, second: calls.append((first, second)), [1], {"second": 2})
    naps = Naps(cancelled_at)
    timer.finished = naps  # type: ignore[assignment]
    timer.run()
    assert (naps.seconds, calls, naps.is_done) == (waits, [(1, 2)] * called, True)
