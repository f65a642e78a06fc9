"""Whatever third-party code raises, its caller gets an ordinary exception."""

import asyncio
import concurrent.futures
import sys
from collections.abc import Callable

import pytest

from mas.runtime.safe_call import await_safely, run_in_thread


class FailureError(Exception):
    pass


def leave() -> str:
    sys.exit(3)


def interrupt() -> str:
    raise KeyboardInterrupt


def stop() -> str:
    raise StopIteration


def cancel() -> str:
    raise concurrent.futures.CancelledError


def cancel_task() -> str:
    raise asyncio.CancelledError


def fail() -> str:
    raise ValueError("of the tool")


def name(how: str) -> Exception:
    return FailureError(f"the tool {how}")


@pytest.mark.parametrize(
    ("call", "how"),
    [
        (leave, r"ended with SystemExit \(3\)$"),
        (interrupt, "ended with KeyboardInterrupt$"),
        (stop, "ended with StopIteration$"),
        (cancel, "ended with CancelledError$"),
    ],
)
def test_what_would_end_the_loop_or_hang_the_waiter_is_a_failure(call: Callable[[], str], how: str) -> None:
    with pytest.raises(FailureError, match=f"the tool {how}"):
        asyncio.run(run_in_thread(call, name))


@pytest.mark.parametrize("call", [leave, interrupt, cancel, cancel_task])
def test_the_same_of_what_is_awaited(call: Callable[[], str]) -> None:
    async def work() -> str:
        return call()

    async def scenario() -> str:
        return await await_safely(work(), name)

    with pytest.raises(FailureError, match="the tool ended with "):
        asyncio.run(scenario())


def test_results_and_ordinary_exceptions_pass_unchanged() -> None:
    async def work(call: Callable[[], str]) -> str:
        return call()

    assert asyncio.run(run_in_thread(lambda: "done", name)) == "done"
    assert asyncio.run(await_safely(work(lambda: "done"), name)) == "done"
    with pytest.raises(ValueError, match="of the tool"):
        asyncio.run(run_in_thread(fail, name))
    with pytest.raises(ValueError, match="of the tool"):
        asyncio.run(await_safely(work(fail), name))


def test_a_cancellation_from_outside_stays_one() -> None:
    async def scenario() -> None:
        task = asyncio.create_task(_wait())
        await asyncio.sleep(0)
        task.cancel()
        await task

    async def _wait() -> None:
        await await_safely(asyncio.sleep(60), name)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scenario())
