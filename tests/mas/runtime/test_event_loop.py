"""The one background loop that synchronous callers share."""

import asyncio
import contextvars
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mas.runtime import event_loop
from mas.runtime.event_loop import (
    MAX_BLOCKING_CALLS,
    background_loop,
    may_block,
    model_call,
    run_blocking,
    settle_pause,
    warn_of_block,
)
from mas.runtime.loop_clock import DEFAULT_TIMES, BlockingCall, now
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.runtime.trace import Trace, record_trace, span

WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="nothing")
PROJECT = Path(__file__).parents[3]
PATIENCE_SECONDS = 20.0


async def running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_first_callers_that_come_at_once_get_the_same_loop() -> None:
    """In a new process, where nobody has called before."""
    code = (
        "import asyncio, threading\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from mas.runtime.event_loop import run_blocking\n"
        "together = threading.Barrier(16)\n"
        "async def running(): return asyncio.get_running_loop()\n"
        "def call(_):\n    together.wait()\n    return run_blocking(running())\n"
        "with ThreadPoolExecutor(16) as threads: loops = set(threads.map(call, range(16)))\n"
        "print(len(loops), [t.name for t in threading.enumerate()].count('mas-loop'))"
    )
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert printed == "1 1\n"


def test_later_callers_get_the_same_loop_from_every_thread() -> None:
    run_blocking(running_loop())
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(lambda _: run_blocking(running_loop()), range(8))) == {background_loop()}


def test_the_callers_context_goes_with_the_work_and_stays_his_own() -> None:
    async def change() -> str:
        before = WORD.get()
        WORD.set("changed inside")
        return before

    token = WORD.set("from the caller")
    try:
        assert run_blocking(change()) == "from the caller"
        assert WORD.get() == "from the caller"
    finally:
        WORD.reset(token)


def test_an_exception_comes_back_to_the_caller() -> None:
    async def fail() -> None:
        raise KeyError("no such thing")

    with pytest.raises(KeyError, match="no such thing"):
        run_blocking(fail())


def test_called_on_the_loop_itself_it_says_so_instead_of_hanging() -> None:
    async def call_again() -> None:
        run_blocking(running_loop())

    with pytest.raises(RuntimeError, match="await the async form instead"):
        run_blocking(asyncio.wait_for(call_again(), PATIENCE_SECONDS))


def test_from_another_running_loop_it_works() -> None:
    async def caller() -> asyncio.AbstractEventLoop:
        return run_blocking(running_loop())

    assert asyncio.run(caller()) is background_loop()


def test_an_interrupted_caller_cancels_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def wait_for_ever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupted(self: object, timeout: float | None = None) -> None:
        assert started.wait(PATIENCE_SECONDS)
        raise KeyboardInterrupt  # what Ctrl-C does to a main thread that waits here

    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_blocking(wait_for_ever())
    assert cancelled.wait(PATIENCE_SECONDS)


def test_many_tools_may_block_at_once() -> None:
    """All must have started before the first one ends."""
    together = threading.Barrier(MAX_BLOCKING_CALLS, timeout=PATIENCE_SECONDS)

    async def all_blocking() -> list[int]:
        return await asyncio.gather(*(asyncio.to_thread(together.wait) for _ in range(MAX_BLOCKING_CALLS)))

    assert sorted(run_blocking(all_blocking())) == list(range(MAX_BLOCKING_CALLS))


def test_the_loop_outlives_a_task_that_exits() -> None:
    async def exits() -> None:
        raise SystemExit(3)

    async def answers() -> int:
        return 42

    with pytest.raises(SystemExit):
        run_blocking(exits())
    assert run_blocking(answers()) == 42


def test_a_model_call_has_threads_of_its_own_that_must_not_block() -> None:
    def name() -> tuple[str, bool]:
        return threading.current_thread().name.rpartition("_")[0], may_block()

    async def ask() -> list[tuple[str, bool]]:
        found = [(threading.current_thread().name, may_block()), await asyncio.to_thread(name)]
        with model_call():
            found.append(await asyncio.to_thread(name))
        return [*found, await asyncio.to_thread(name)]

    assert run_blocking(ask()) == [
        ("mas-loop", False),
        ("mas-blocking", True),
        ("mas-model", False),
        ("mas-blocking", True),
    ]
    assert may_block()


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found = list[str]()
    monkeypatch.setattr(event_loop, "print_warning", found.append)
    return found


def blocking_call(asked: SampleContext | None, trace: Trace) -> BlockingCall:
    """A call that blocked the loop in the context of a question."""
    with record_trace(trace), span("agent", "expert"):
        if asked is None:
            return BlockingCall("/a/mine.py:7 in work", contextvars.copy_context())
        with use_context(asked):
            return BlockingCall("/a/mine.py:7 in work", contextvars.copy_context())


def test_the_line_that_blocks_the_loop_is_named_with_its_question(warnings: list[str]) -> None:
    for asked in (SampleContext(SampleKey("q1")), None):
        warn_of_block(blocking_call(asked, Trace("t")))
    rest = (
        f"has blocked the event loop for {DEFAULT_TIMES.reported_seconds:g} s: everything else waits for it, "
        "with longer deadlines; use await there, or asyncio.to_thread."
    )
    assert warnings == [f"/a/mine.py:7 in work (question 'q1') {rest}", f"/a/mine.py:7 in work {rest}"]


LONG = DEFAULT_TIMES.reported_seconds


@pytest.mark.parametrize(("seconds", "is_told"), [(LONG - 0.01, False), (LONG, True), (LONG + 2.0, True)])
def test_a_long_pause_of_the_process_is_told_and_charged_to_nobody(
    seconds: float, is_told: bool, warnings: list[str]
) -> None:
    settle_pause(seconds, None)
    told = f"this process could not run for {seconds:.0f} s (was it stopped?): deadlines are extended by that."
    assert warnings == ([told] if is_told else [])


@pytest.mark.parametrize(("seconds", "is_told"), [(LONG - 0.01, False), (LONG, True), (LONG + 2.26, True)])
def test_a_pause_is_charged_to_the_question_whose_code_it_was_and_a_long_one_is_an_event(
    seconds: float, is_told: bool, warnings: list[str]
) -> None:
    began, trace = now(), Trace("t")
    asked = SampleContext(SampleKey("q1"), deadline=began + 100)
    settle_pause(seconds, blocking_call(asked, trace))
    assert asked.deadline == began + 100 - seconds
    (found,) = trace.spans
    events = [{key: value for key, value in each.items() if key != "seconds"} for each in found.events]
    wanted = {"name": "event loop blocked", "level": "warning", "where": "/a/mine.py:7 in work"}
    assert events == ([wanted] if is_told else []) and warnings == []
    settle_pause(seconds, blocking_call(None, Trace("u")))
    assert asked.deadline == began + 100 - seconds
