"""Which failures of a request pass, and how long to wait before it is sent again: the only retry layer there is.

DSPy's, LiteLLM's and the HTTP client's own retries are off. The wait is drawn evenly between 0 and a bound that doubles
("full jitter", https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/); a server's `Retry-After` is
obeyed instead. A wait that would outlast the call or its question is not begun: the failure is final at once.

    await retrying(context, num_retries=3, base_seconds=1.0, left_seconds=lambda: 180.0)(send_once)
"""

import asyncio
from collections.abc import Callable

from dspy.lm15 import LockTimeoutError, ProviderError, RateLimitError, ServerError, TransportError
from dspy.lm15 import TimeoutError as ServerTimeoutError
from tenacity import AsyncRetrying, RetryCallState
from tenacity.wait import wait_random_exponential

from mas.runtime.lm_errors import EmptyReplyError
from mas.runtime.sample_context import SampleContext

MAX_WAIT_SECONDS = 60.0  # of a wait that no server asked for
SERVER_FAULTS = (ServerError, ServerTimeoutError, TransportError)
PASSING = (RateLimitError, *SERVER_FAULTS, LockTimeoutError)  # a used-up quota is none: BillingError


def build_retry_policy(
    context: SampleContext, num_retries: int, base_seconds: float, remaining_seconds: Callable[[], float]
) -> AsyncRetrying:
    """The retries of one call: `await retrying(…)(function, argument)`; its last failure is raised as it was.

    Args:
        context: the waits are waiting, not its work.
        num_retries: at most so many after the first try.
        base_seconds: bound of the first wait.
        left_seconds: of the call's or the question's time, whichever is less; a wait may not be as long.
    """

    async def sleep(seconds: float) -> None:
        with context.pause_working_time():
            await asyncio.sleep(seconds)

    jitter = wait_random_exponential(multiplier=base_seconds, max=MAX_WAIT_SECONDS)

    def wait(state: RetryCallState) -> float:
        asked: float | None = getattr(_failure(state), "retry_after", None)
        return jitter(state) if asked is None else asked

    def stop(state: RetryCallState) -> bool:
        return state.attempt_number > num_retries or state.upcoming_sleep >= remaining_seconds()

    return AsyncRetrying(sleep=sleep, stop=stop, wait=wait, retry=_worth_another_try, reraise=True)


def _worth_another_try(state: RetryCallState) -> bool:
    """A fault that passes is retried; a reply that makes no sense (bad JSON, HTML, nothing at all) once."""
    error = _failure(state)
    if isinstance(error, PASSING):
        return True
    return state.attempt_number == 1 and (isinstance(error, EmptyReplyError) or type(error) is ProviderError)


def _failure(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
