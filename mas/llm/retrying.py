"""Retries of failed requests: which failures are transient, and how long to wait. The only retry layer there is.

The retries of DSPy, LiteLLM and the HTTP client are off. The wait is uniform between 0 and a bound that doubles ("full
jitter", https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/), unless the server names one with
`Retry-After`. A failure is final at once if the wait would outlast the call or its sample.

    await build_retry_policy(context, num_retries=3, base_seconds=1.0, get_seconds_left=lambda: 180.0)(send_once)
"""

import asyncio
from collections.abc import Callable

from dspy.lm15 import LockTimeoutError, ProviderError, RateLimitError, ServerError, TransportError
from dspy.lm15 import TimeoutError as ServerTimeoutError
from tenacity import AsyncRetrying, RetryCallState
from tenacity.wait import wait_random_exponential

from mas.runtime.lm_errors import EmptyReplyError
from mas.runtime.sample_context import SampleContext

MAX_WAIT_SECONDS = 60.0  # unless the server asks for a longer one
SERVER_FAULTS = (ServerError, ServerTimeoutError, TransportError)
TRANSIENT = (RateLimitError, *SERVER_FAULTS, LockTimeoutError)  # an exhausted quota is a BillingError, and final


def build_retry_policy(
    context: SampleContext, num_retries: int, base_seconds: float, get_seconds_left: Callable[[], float]
) -> AsyncRetrying:
    """Return the retry policy of one call; called with a function and its arguments, it raises the last failure.

    Args:
        context: its working time is paused during the waits.
        num_retries: maximum number after the first attempt.
        base_seconds: upper bound of the first wait.
        get_seconds_left: returns the time left to the call; a wait must be shorter.
    """

    async def sleep(seconds: float) -> None:
        with context.pause_working_time():
            await asyncio.sleep(seconds)

    jitter = wait_random_exponential(multiplier=base_seconds, max=MAX_WAIT_SECONDS)

    def wait(state: RetryCallState) -> float:
        retry_after: float | None = getattr(_get_failure(state), "retry_after", None)
        return jitter(state) if retry_after is None else retry_after

    def stop(state: RetryCallState) -> bool:
        return state.attempt_number > num_retries or state.upcoming_sleep >= get_seconds_left()

    return AsyncRetrying(sleep=sleep, stop=stop, wait=wait, retry=_is_worth_retrying, reraise=True)


def _is_worth_retrying(state: RetryCallState) -> bool:
    """Return true for transient faults, and once for a meaningless reply (bad JSON, HTML, nothing at all)."""
    error = _get_failure(state)
    if isinstance(error, TRANSIENT):
        return True
    return state.attempt_number == 1 and (isinstance(error, EmptyReplyError) or type(error) is ProviderError)


def _get_failure(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
