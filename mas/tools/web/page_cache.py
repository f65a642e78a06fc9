"""Pages that the question has fetched: page 2 is of the same text as page 1, and costs no request.

document = await get_or_fetch(("page", url), fetch_and_read)
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mas.runtime.sample_context import current_context

MAX_KEPT = 6  # of one question; the oldest goes
_NAME = "web"
_Result = TypeVar("_Result")


async def get_or_fetch(key: tuple[str, ...], make: Callable[[], Awaitable[_Result]]) -> _Result:
    """Return what the question has fetched under this key, or fetch it; outside a question fetch it each time."""
    context = current_context()
    if context is None:
        return await make()
    store = context.tool_state.setdefault(_NAME, {})
    if key not in store:
        made = await make()
        store[key] = made
        while len(store) > MAX_KEPT:
            del store[next(iter(store))]
        return made
    found: _Result = store[key]
    return found
