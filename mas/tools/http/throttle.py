"""So many requests a minute to one service, for all questions of this process together.

A few may go at once after a pause; then each call takes the next free moment.

    await paced("wikipedia", per_minute=180)
"""

import asyncio
import threading
import time
from contextlib import AbstractContextManager, nullcontext

from mas.runtime.sample_context import current_context

BURST = 10  # requests
_next_free: dict[str, float] = {}  # service → time.monotonic()
_lock = threading.Lock()  # runs in several event loops of one process share the pace


async def wait_for_turn(service: str, per_minute: float | None) -> None:
    """Wait until the next request may go. None: at once."""
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
    """Sleep, as time in which the question does not work."""
    with _waiting():
        await asyncio.sleep(seconds)


def _waiting() -> AbstractContextManager[None]:
    context = current_context()
    return nullcontext() if context is None else context.pause_working_time()
