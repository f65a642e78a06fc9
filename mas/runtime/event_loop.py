"""One event loop for the whole process, on a thread of its own.

HTTP connections, rate limiters, tool sessions and deadlines belong to the loop they were made on. Synchronous callers
from any number of threads, and coroutines on other loops, hand their coroutines to this one.
"""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
_STARTING = threading.Lock()  # functools.cache alone makes several when the first callers come at once
LOOP_THREAD = "mas-loop"
IS_QUICK = "is_quick"  # attribute of an LM whose requests need no files and no look-up of prices
MAX_THREADS = 2_000  # started as needed: those that wait for a model leave it another


@functools.cache
def background_loop() -> asyncio.AbstractEventLoop:
    """Return the loop; the first call starts its thread."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_Threads(MAX_THREADS, thread_name_prefix="mas-blocking"))
    threading.Thread(target=_run, args=(loop,), name=LOOP_THREAD, daemon=True).start()
    return loop


class _Threads(ThreadPoolExecutor):
    """Threads for what blocks. Two short steps of each model call, which DSPy sends here, are done at once.

    A switch to a thread and back takes far longer than either step. Only our LMs are known to make them short.
    """

    def submit(self, call: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        function, first = [*getattr(call, "args", ()), None, None][:2]  # as `asyncio.to_thread` binds them
        if getattr(function, "__module__", "") != "dspy.clients.execution" or not getattr(first, IS_QUICK, False):
            return super().submit(call, *args, **kwargs)
        done: Future[T] = Future()
        try:
            done.set_result(call(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # as in a thread: for whoever awaits the result
            done.set_exception(error)
        return done


def _run(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        # Those of a task pass through the loop itself: its caller gets them, and other tasks go on.
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
            return


def is_on_loop() -> bool:
    return threading.current_thread().name == LOOP_THREAD


def _submit(coroutine: Coroutine[object, None, T]) -> Future[T]:
    with _STARTING:
        return asyncio.run_coroutine_threadsafe(coroutine, background_loop())


async def await_on_loop(coroutine: Coroutine[object, None, T]) -> T:
    """Await the coroutine on the background loop, from any loop; a cancellation ends it there, too."""
    if is_on_loop():
        return await coroutine
    return await asyncio.wrap_future(_submit(coroutine))


def run_blocking(coroutine: Coroutine[object, None, T]) -> T:
    """Run the coroutine on the background loop in the caller's context, `dspy.context` included.

    RuntimeError: called on the background loop itself, which would block for ever.
    """
    if is_on_loop():
        coroutine.close()
        raise RuntimeError("a blocking call on the agents' event loop: await the call, or use asyncio.to_thread")
    future = _submit(coroutine)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C: the work stops too
        raise
