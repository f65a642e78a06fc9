"""Retries of failed requests: which failures are transient, how long to wait, and when an attempt has hung.

This is the only retry layer there is.

The retries of DSPy, LiteLLM and the HTTP client are off. The wait is uniform between 0 and a bound that doubles ("full
jitter", https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/), unless the server names one with
`Retry-After`. A failure is final at once if the wait would outlast the call or its sample.

Faults (no or half a reply, a server error) are limited by `num_retries`. A refusal (429, 503, 529) is not a fault:
waiting solves it as long as the server answers others, so a call may be refused four times as often. A server that
answers nobody for a minute is given up after `num_retries` refusals.

    attempts = FailedAttempts(num_retries=3, count_answered=lambda: limiter.answered)
    await build_retry_policy(context, attempts, base_seconds=1.0, get_seconds_left=lambda: 180.0)(send_once)

An attempt that takes far longer than the replies before it is cut off and repeated: most hung requests are answered at
once when they are sent again.

    times = ReplyTimes()
    times.record(2.0)
    times.get_timeout()             # inf: too few replies yet
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from dspy.lm15 import LockTimeoutError, ProviderError, RateLimitError, ServerError, TransportError
from dspy.lm15 import TimeoutError as ServerTimeoutError
from tenacity import AsyncRetrying, RetryCallState
from tenacity.wait import wait_random_exponential

from mas.runtime.lm_errors import EmptyReplyError
from mas.runtime.sample_context import SampleContext

MAX_WAIT_SECONDS = 60.0  # unless the server asks for a longer one
SERVER_FAULTS = (ServerError, ServerTimeoutError, TransportError)
TRANSIENT = (RateLimitError, *SERVER_FAULTS, LockTimeoutError)  # an exhausted quota is a BillingError, and final
REFUSED = (503, 529)  # server errors that mean "not now", as 429 does
REFUSALS_PER_RETRY = 4  # a call may be refused so many times as often as it may fail
SILENCE_SECONDS = 60.0  # a server that answered nobody for so long will not answer after one more refusal either
MIN_REPLIES, MAX_REPLIES = 10, 100  # before anything is learnt; newest ones that count
SLOW_SHARE = 0.9  # the reply time that this share of them did not exceed …
TIMEOUT_FACTOR = 5.0  # … times this is the timeout of an attempt,
MIN_TIMEOUT_SECONDS = 10.0  # which is never shorter


class AttemptTimeoutError(ServerTimeoutError):
    """An attempt was cut off because it took far longer than other replies; the call goes on."""


class ReplyTimes:
    """Times that the newest replies to one LM took, from which the timeout of an attempt is learnt.

    An attempt that was cut off counts with the time until then: a server that becomes slow raises the timeout, a few
    requests that hang do not.
    """

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=MAX_REPLIES)

    def record(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def get_timeout(self) -> float:
        """Return the seconds after which an attempt has probably hung; infinite while too little is known."""
        if len(self._seconds) < MIN_REPLIES:
            return math.inf
        slow = sorted(self._seconds)[math.ceil(SLOW_SHARE * len(self._seconds)) - 1]
        return max(MIN_TIMEOUT_SECONDS, TIMEOUT_FACTOR * slow)


@dataclass
class FailedAttempts:
    """Failed attempts of one call, and the decision whether there may be another one."""

    num_retries: int  # after faults
    count_answered: Callable[[], int]  # returns the requests of all calls that the server has answered
    faults: int = 0
    refusals: int = 0
    _refused_at: float = 0.0
    _answered_before: int = 0  # the first refusal

    def record(self, error: BaseException | None) -> None:
        """Count a failure as a refusal or as a fault."""
        if not _is_refusal(error):
            self.faults += 1
            return
        if not self.refusals:
            self._refused_at, self._answered_before = time.monotonic(), self.count_answered()
        self.refusals += 1

    @property
    def is_next_fault_final(self) -> bool:
        return self.faults >= self.num_retries

    @property
    def is_last_final(self) -> bool:
        """Return whether the failure that was recorded last ends the call."""
        if self.faults > self.num_retries or self.refusals > REFUSALS_PER_RETRY * self.num_retries:
            return True
        return self.refusals > self.num_retries and self._is_silent()

    def _is_silent(self) -> bool:
        """Return whether the server has answered nobody for long, since it first refused this call."""
        return self.count_answered() == self._answered_before and time.monotonic() - self._refused_at >= SILENCE_SECONDS


def build_retry_policy(
    context: SampleContext, attempts: FailedAttempts, base_seconds: float, get_seconds_left: Callable[[], float]
) -> AsyncRetrying:
    """Return the retry policy of one call; called with a function and its arguments, it raises the last failure.

    Args:
        context: its working time is paused during the waits.
        attempts: counts the failures, and limits them.
        base_seconds: upper bound of the first wait.
        get_seconds_left: returns the time left to the call; a wait must be shorter.
    """

    async def sleep(seconds: float) -> None:
        with context.pause_working_time():
            await asyncio.sleep(seconds)

    jitter = wait_random_exponential(multiplier=base_seconds, max=MAX_WAIT_SECONDS)

    def is_worth_retrying(state: RetryCallState) -> bool:
        error = _get_failure(state)
        return isinstance(error, TRANSIENT) or (_is_meaningless(error) and attempts.faults == 0)

    def record(state: RetryCallState) -> None:
        attempts.record(_get_failure(state))

    def wait(state: RetryCallState) -> float:
        retry_after: float | None = getattr(_get_failure(state), "retry_after", None)
        return jitter(state) if retry_after is None else retry_after

    def stop(state: RetryCallState) -> bool:
        return attempts.is_last_final or state.upcoming_sleep >= get_seconds_left()

    return AsyncRetrying(sleep=sleep, after=record, wait=wait, stop=stop, retry=is_worth_retrying, reraise=True)


def _is_refusal(error: BaseException | None) -> bool:
    return isinstance(error, RateLimitError) or (isinstance(error, ServerError) and error.status in REFUSED)


def _is_meaningless(error: BaseException | None) -> bool:
    """Return whether it is a reply that says nothing (bad JSON, HTML, nothing at all), which is asked for once more."""
    return isinstance(error, EmptyReplyError) or type(error) is ProviderError


def _get_failure(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
