"""One event loop for the whole process, on a thread of its own.

HTTP connections, tool sessions and deadlines belong to the loop they were made on. Synchronous callers (optimisers,
`dspy.Evaluate`) from any number of threads hand their coroutines to this one; a loop per call would throw the
connections away each time.
"""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
_STARTING = threading.Lock()  # functools.cache alone makes several when the first callers come at once
MAX_BLOCKING_CALLS = 64  # tools that wait in a thread must not keep the model client waiting for one
LOOP_THREAD, POOL_THREADS = "mas-loop", "mas-blocking"


@functools.cache
def background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(MAX_BLOCKING_CALLS, thread_name_prefix=POOL_THREADS))
    threading.Thread(target=_run, args=(loop,), name=LOOP_THREAD, daemon=True).start()
    return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """`SystemExit` and `KeyboardInterrupt` leave a task through the loop itself; whoever waits for the task gets them,
    and the other tasks go on.
    """
    while True:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
            return


def may_block() -> bool:
    """Whether the caller may wait for the loop: not on it, nor in its pool, whose threads a model call needs."""
    return not threading.current_thread().name.startswith((LOOP_THREAD, POOL_THREADS))


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, computed on the background loop in the caller's context (`dspy.context` and all).

    Raises:
        RuntimeError: called on the background loop itself, where waiting would block it for ever.
    """
    with _STARTING:
        loop = background_loop()
    if threading.current_thread().name == LOOP_THREAD:
        coroutine.close()
        raise RuntimeError("called synchronously from the agents' own event loop: await the async form instead")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C: the work stops too
        raise
