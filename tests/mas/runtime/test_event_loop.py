"""The one background loop that synchronous callers share."""

import asyncio
import contextvars
import threading

import pytest

from mas.runtime.event_loop import (
    run_blocking,
)
from tests.patience import PATIENCE_SECONDS

WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="nothing")


async def running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


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


def test_called_on_the_loop_itself_it_says_so_instead_of_hanging() -> None:
    async def call_again() -> None:
        run_blocking(running_loop())

    with pytest.raises(RuntimeError, match="a blocking call on the agents' event loop"):
        run_blocking(asyncio.wait_for(call_again(), PATIENCE_SECONDS))


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


def test_the_loop_outlives_a_task_that_exits() -> None:
    async def exits() -> None:
        raise SystemExit(3)

    async def answers() -> int:
        return 42

    with pytest.raises(SystemExit):
        run_blocking(exits())
    assert run_blocking(answers()) == 42
