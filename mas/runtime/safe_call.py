"""Calling code that is not ours: whatever it raises stays its own mistake.

`StopIteration` that leaves a thread through a future leaves its waiter waiting; `SystemExit` and `KeyboardInterrupt`
end the event loop; a stray `CancelledError` ends the task that it passes through, silently.

    await run_in_thread(lambda: sys.exit(3), lambda how: ToolError(f"the tool {how}"))
    # ToolError: the tool ended with SystemExit (3)
"""

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from typing import Any

Failure = Callable[[str], Exception]  # from "ended with SystemExit (3)" to the exception to raise instead


async def run_in_thread(call: Callable[[], Any], failure: Failure) -> Any:
    """The call's result, from a thread with the caller's context. An ordinary exception goes on as it is."""

    def contained() -> Any:
        try:
            return call()
        except (StopIteration, concurrent.futures.CancelledError) as error:
            raise failure(_how(error)) from error
        except Exception:
            raise
        except BaseException as error:
            raise failure(_how(error)) from error

    return await asyncio.to_thread(contained)


async def await_safely(result: Awaitable[Any], failure: Failure) -> Any:
    """The same for something awaitable; a cancellation from outside (a deadline, Ctrl-C) goes on its way."""
    try:
        return await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise failure(_how(error)) from error
    except concurrent.futures.CancelledError as error:
        raise failure(_how(error)) from error
    except Exception:
        raise
    except BaseException as error:
        raise failure(_how(error)) from error


def _how(error: BaseException) -> str:
    return f"ended with {type(error).__name__}" + (f" ({error})" if str(error) else "")
