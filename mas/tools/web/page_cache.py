"""What the question has already fetched, so that page 2 is of the same text as page 1, and costs nothing.

document = await kept(("page", url), fetch_and_read)
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mas.runtime.sample_context import current_context

MAX_KEPT = 6  # of one question; the oldest goes
_NAME = "web"
_Result = TypeVar("_Result")


async def get_or_fetch(key: tuple[str, ...], make: Callable[[], Awaitable[_Result]]) -> _Result:
    """Made now, or when the question first asked for it; outside a question it is made each time."""
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
