"""Attempts of one call: which failures are retried, how long to wait, and when an attempt has hung.

This is the only retry layer; those of DSPy, LiteLLM and the HTTP client are off. The wait is uniform between 0 and a
bound that doubles ("full jitter", https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/), unless
the server names one with `Retry-After`. A failure is final at once if the wait would outlast the call or its sample.

Faults (no or half a reply, a server error) are limited by `num_retries`. A refusal (429, 503, 529) is not a fault,
since waiting solves it: a call may be refused four times as often.

An attempt that takes far longer than the replies before it is cut off and repeated: most hung requests are answered at
once when they are sent again.

    await Attempts(context, num_retries=3, base_seconds=1.0, deadline_seconds=360.0).build_retry_policy()(send_once)
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dspy.lm15 import ProviderError, RateLimitError, ServerError, TransportError
from dspy.lm15 import TimeoutError as ServerTimeoutError
from dspy.utils.exceptions import LMTimeoutError
from tenacity import AsyncRetrying, RetryCallState
from tenacity.wait import wait_random_exponential

from mas.runtime.lm_errors import EmptyReplyError
from mas.runtime.sample_context import SampleContext

MAX_WAIT_SECONDS = 60.0  # unless the server asks for a longer one
SERVER_FAULTS = (ServerError, ServerTimeoutError, TransportError)
TRANSIENT = (RateLimitError, *SERVER_FAULTS)  # an exhausted quota is a BillingError, and final
REFUSED = (503, 529)  # server errors that mean "not now", as 429 does
REFUSALS_PER_RETRY = 4  # a call may be refused so many times as often as it may fail
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
        """Return the seconds after which an attempt has probably hung; infinite while too little is known.

        Without that knowledge a slow server would be sent the same request again and again.
        """
        if len(self._seconds) < MIN_REPLIES:
            return math.inf
        slow = sorted(self._seconds)[math.ceil(SLOW_SHARE * len(self._seconds)) - 1]
        return max(MIN_TIMEOUT_SECONDS, TIMEOUT_FACTOR * slow)


@dataclass
class Attempts:
    """Attempts of one call, and the time that they took."""

    context: SampleContext  # its working time is paused during the waits
    num_retries: int  # after faults
    base_seconds: float  # upper bound of the first wait
    deadline_seconds: float  # for sending and receiving, of all attempts together
    count: int = 0
    faults: int = 0
    refusals: int = 0
    cut_off: int = 0  # attempts that took longer than their timeout
    worked_seconds: float = 0.0  # sending and receiving
    idle_since: float = field(default_factory=time.monotonic)  # begin of the call, or end of its last attempt

    def get_seconds_left(self) -> float:
        """Return the time left to the call or to its sample, whichever is less."""
        return min(self.deadline_seconds - self.worked_seconds, self.context.seconds_left)

    def get_timeout(self, seconds: float | None, reply_times: ReplyTimes) -> float:
        """Return the timeout of the current attempt: `seconds`, or the learnt one, longer after one that was cut off.

        The last attempt has none.
        """
        if self.faults >= self.num_retries:
            return math.inf
        return reply_times.get_timeout() * 2.0**self.cut_off if seconds is None else seconds

    @asynccontextmanager
    async def limit_work(self, timeout_seconds: float) -> AsyncIterator[None]:
        """Count the block, one attempt, as work, and cancel it at its timeout or at the call's deadline.

        Raises:
            AttemptTimeoutError: the attempt took longer than `timeout_seconds`; the call still has time.
            LMTimeoutError: all attempts together took longer than the deadline.
        """
        began, left = time.monotonic(), self.deadline_seconds - self.worked_seconds
        try:
            async with asyncio.timeout(min(timeout_seconds, left)) as timeout:
                yield
        except TimeoutError as error:
            if not timeout.expired():
                raise
            if timeout_seconds < left:
                self.cut_off += 1
                raise AttemptTimeoutError(
                    f"no complete reply within {timeout_seconds:.3g} s to attempt {self.count} of a call that may take "
                    f"{self.deadline_seconds:g} s (model.call_deadline_seconds)"
                ) from error
            raise LMTimeoutError(
                f"no complete reply within {self.deadline_seconds:g} s (model.call_deadline_seconds)"
            ) from error
        finally:
            self.worked_seconds += time.monotonic() - began

    def build_retry_policy(self) -> AsyncRetrying:
        """Return the retries: called with a function and its arguments, they raise its last failure."""
        jitter = wait_random_exponential(multiplier=self.base_seconds, max=MAX_WAIT_SECONDS)

        def wait(state: RetryCallState) -> float:
            retry_after: float | None = getattr(_get_failure(state), "retry_after", None)
            return jitter(state) if retry_after is None else retry_after

        return AsyncRetrying(
            sleep=self._sleep, after=self._record, wait=wait, stop=self._is_last, retry=self._is_transient, reraise=True
        )

    async def _sleep(self, seconds: float) -> None:
        with self.context.pause_working_time():
            await asyncio.sleep(seconds)

    def _is_transient(self, state: RetryCallState) -> bool:
        error = _get_failure(state)
        is_meaningless = isinstance(error, EmptyReplyError) or type(error) is ProviderError  # no JSON, or nothing
        return isinstance(error, TRANSIENT) or (is_meaningless and self.faults == 0)  # the latter once

    def _record(self, state: RetryCallState) -> None:
        error = _get_failure(state)
        if isinstance(error, RateLimitError) or (isinstance(error, ServerError) and error.status in REFUSED):
            self.refusals += 1
        else:
            self.faults += 1

    def _is_last(self, state: RetryCallState) -> bool:
        if self.faults > self.num_retries or self.refusals > REFUSALS_PER_RETRY * self.num_retries:
            return True
        return state.upcoming_sleep >= self.get_seconds_left()


def _get_failure(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
