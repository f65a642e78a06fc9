"""Threads that a program starts while it answers a sample work for that sample.

Python gives a new thread an empty context, and the work of a pool the context of whichever thread runs it. A model call
there had no limit and was counted nowhere: of `dspy.Parallel`, `Module.batch`, or a program's own pools. Outside of a
sample nothing changes.

    carry_contexts(lambda: current_context() is not None)      # once; a second call does nothing
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, wraps
from typing import Any

_POOLS = "concurrent.futures.thread"  # whose threads outlive the work that started them, and run that of others


@cache
def carry_contexts(is_in_sample: Callable[[], bool]) -> None:
    """Let threads, and the work of thread pools, have the context of the code that started them within a sample."""
    submit, start = ThreadPoolExecutor.submit, threading.Thread.start

    @wraps(submit)  # type: ignore[arg-type]
    def submit_in_context(
        self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        if is_in_sample():
            return submit(self, copy_context().run, fn, *args, **kwargs)
        return submit(self, fn, *args, **kwargs)

    @wraps(start)
    def start_in_context(self: threading.Thread) -> None:
        target = getattr(self, "_target", None)
        if is_in_sample() and getattr(target, "__module__", None) != _POOLS:
            context, run = copy_context(), self.run
            self.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(self)

    ThreadPoolExecutor.submit, threading.Thread.start = submit_in_context, start_in_context  # type: ignore[method-assign,assignment]
