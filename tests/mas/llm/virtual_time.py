"""asyncio without waiting: sleeping moves the clock. Minutes of a run pass in milliseconds, the same every time.

run_in_virtual_time(asyncio.sleep(3600))       # returns at once
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Clock(selectors.SelectSelector):
    seconds = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing will ever happen again: a deadlock"
            self.seconds += max(timeout, 1e-6)  # a real clock never stands still
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Clock()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.seconds


def run_in_virtual_time(coroutine: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(coroutine)
