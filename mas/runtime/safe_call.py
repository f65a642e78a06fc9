"""Calls into third-party code, such that whatever it raises becomes an ordinary exception.

`StopIteration` that leaves a thread through a future leaves its waiter waiting; `SystemExit` and `KeyboardInterrupt`
end the event loop; a stray `CancelledError` ends the task that it passes through, without a word.
"""

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
Failure = Callable[[str], Exception]  # of "ended with SystemExit (3)": to raise instead


async def run_in_thread(call: Callable[[], T], failure: Failure) -> T:
    """Return the call's result, from a thread with the caller's context. Ordinary exceptions pass."""

    def call_safely() -> T:
        try:
            return call()
        except BaseException as error:
            if _is_ordinary(error):
                raise
            raise failure(_describe_end(error)) from error

    return await asyncio.to_thread(call_safely)


async def await_safely(result: Awaitable[T], failure: Failure) -> T:
    """Return an awaitable's result; a cancellation from outside (a deadline, Ctrl-C) passes."""
    try:
        return await result
    except BaseException as error:
        task = asyncio.current_task()
        is_from_outside = isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)
        if is_from_outside or _is_ordinary(error):
            raise
        raise failure(_describe_end(error)) from error


def _is_ordinary(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, StopIteration | concurrent.futures.CancelledError)


def _describe_end(error: BaseException) -> str:
    return f"ended with {type(error).__name__}" + (f" ({error})" if str(error) else "")
