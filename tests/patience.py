"""How long tests wait for a process, a server, a browser or a thread.

A wait ends as soon as what it waits for is there, so that a long one costs nothing, and none fails on a busy machine.
"""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 400.0

T = TypeVar("T")


def wait_for(condition: Callable[[], T]) -> T:
    """Wait until the condition holds; return what it has returned."""
    over = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < over, "it has not come"
        time.sleep(0.02)
    return found


def find_least_seconds(call: Callable[[], object]) -> float:
    """Return the time of the fastest of five calls: a busy machine delays some of them."""
    seconds = []
    for _ in range(5):
        began = time.monotonic()
        call()
        seconds.append(time.monotonic() - began)
    return min(seconds)
