"""One event loop for the whole process, on a thread of its own.

HTTP connections, tool sessions and deadlines belong to the loop they were made on. Synchronous callers from any number
of threads hand their coroutines to this one.

Those threads may be all those of the loop's own pool, where agents and tools run. A model call needs a thread, too, and
would wait for them for ever; so model calls have a second pool, in which nothing waits for the loop.
"""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
_STARTING = threading.Lock()  # functools.cache alone makes several when the first callers come at once
MAX_BLOCKING_CALLS = 64  # tools that wait in a thread must not keep the model client waiting for one
LOOP_THREAD, POOL_THREADS, MODEL_CALL_THREADS = "mas-loop", "mas-blocking", "mas-model"
_IN_MODEL_CALL: ContextVar[bool] = ContextVar("in_model_call", default=False)


class _Threads(ThreadPoolExecutor):
    """Pool of threads that may wait for the loop, and a second pool for the work of model calls."""

    def __init__(self) -> None:
        super().__init__(MAX_BLOCKING_CALLS, thread_name_prefix=POOL_THREADS)
        self._of_model_calls = ThreadPoolExecutor(MAX_BLOCKING_CALLS, thread_name_prefix=MODEL_CALL_THREADS)

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        if _IN_MODEL_CALL.get():
            return self._of_model_calls.submit(fn, *args, **kwargs)
        return super().submit(fn, *args, **kwargs)


@contextlib.contextmanager
def model_call() -> Iterator[None]:
    """Let the block, a model call on the loop, use threads of the second pool."""
    token = _IN_MODEL_CALL.set(True)
    try:
        yield
    finally:
        _IN_MODEL_CALL.reset(token)


@functools.cache
def background_loop() -> asyncio.AbstractEventLoop:
    """Return the loop; the first call starts its thread."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_Threads())
    threading.Thread(target=_run, args=(loop,), name=LOOP_THREAD, daemon=True).start()
    return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop for ever.

    `SystemExit` and `KeyboardInterrupt` of a task pass through the loop itself: the waiting caller gets them, and the
    other tasks go on.
    """
    while True:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
            return


def may_block() -> bool:
    """Return False on the loop, and in a thread that a model call on the loop waits for."""
    return not threading.current_thread().name.startswith((LOOP_THREAD, MODEL_CALL_THREADS))


def run_blocking(coroutine: Coroutine[object, None, T]) -> T:
    """Run the coroutine on the background loop in the caller's context, `dspy.context` included.

    Raises:
        RuntimeError: called on the background loop itself, which would block for ever.
    """
    with _STARTING:
        loop = background_loop()
    if threading.current_thread().name == LOOP_THREAD:
        coroutine.close()
        raise RuntimeError("a blocking call on the agents' event loop: use asyncio.to_thread(function, …)")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C: the work stops too
        raise
