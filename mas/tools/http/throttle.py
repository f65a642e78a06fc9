"""Throttle of requests to a service, for all questions of this process together.

A few may go at once after a pause; then each call waits for the next free moment.

    await wait_for_turn("wikipedia", per_minute=180)
"""

import asyncio
import threading
import time
from contextlib import nullcontext

from mas.runtime.sample_context import current_context

BURST = 10  # requests
_next_free: dict[str, float] = {}  # service → time.monotonic()
_lock = threading.Lock()  # several event loops of one process share the throttle


async def wait_for_turn(service: str, per_minute: float | None) -> None:
    """Wait until the next request may be sent; without a rate return at once."""
    if per_minute is None:
        return
    with _lock:
        now = time.monotonic()
        interval = 60 / per_minute
        slot = max(now - (BURST - 1) * interval, _next_free.get(service, 0.0))
        _next_free[service] = slot + interval
    if slot > now:
        await sleep(slot - now)


async def sleep(seconds: float) -> None:
    """Sleep; the question's working time does not count it."""
    context = current_context()
    with context.pause_working_time() if context is not None else nullcontext():
        await asyncio.sleep(seconds)
