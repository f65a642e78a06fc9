"""Attempts of one call: which failures are retried, how long to wait, and when an attempt has hung.

This is the only retry layer; those of DSPy, LiteLLM and the HTTP client are off. The wait is uniform between 0 and a
bound that doubles ("full jitter"), unless the server names one with `Retry-After`. A failure is final at once if the
wait would outlast the call or its sample.

Faults (no or half a reply, a server error) are limited by `num_retries`. A refusal (429, 503, 529) is not a fault,
since waiting solves it: a call may be refused four times as often. An attempt that takes far longer than the replies
before it is cut off and repeated: most hung requests are answered at once when they are sent again.

    await Attempts(context, CallSettings(num_retries=3)).build_retry_policy()(send_once)
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
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.wait import wait_random_exponential

from mas.llm import CallSettings
from mas.runtime.lm_errors import EmptyReplyError
from mas.runtime.sample_context import SampleContext

MAX_WAIT_SECONDS = 60.0  # unless the server asks for a longer one
SERVER_FAULTS = (ServerError, ServerTimeoutError, TransportError)
REFUSED = (503, 529)  # server errors that mean "not now", as 429 does
REFUSALS_PER_RETRY = 4  # a call may be refused so many times as often as it may fail
MIN_REPLIES, MAX_REPLIES = 10, 100  # before anything is learnt; newest ones that count
SLOW_SHARE = 0.9  # the reply time that this share of them did not exceed …
TIMEOUT_FACTOR = 5.0  # … times this is the timeout of an attempt,
MIN_TIMEOUT_SECONDS = 10.0  # which is never shorter


class AttemptTimeoutError(ServerTimeoutError):
    """An attempt was cut off because it took far longer than other replies; the call goes on."""


class ReplyTimes(deque[float]):
    """Seconds of the newest replies to one LM. An attempt that was cut off counts with the time until then."""

    def __init__(self) -> None:
        super().__init__(maxlen=MAX_REPLIES)

    def get_timeout(self) -> float:
        """Return the seconds after which an attempt has probably hung; infinite while too little is known."""
        if len(self) < MIN_REPLIES:
            return math.inf
        return max(MIN_TIMEOUT_SECONDS, TIMEOUT_FACTOR * sorted(self)[math.ceil(SLOW_SHARE * len(self)) - 1])


@dataclass
class Attempts:
    """Attempts of one call, and the time that they took."""

    context: SampleContext  # its working time is paused during the waits
    settings: CallSettings
    count: int = 0
    faults: int = 0
    refusals: int = 0
    worked_seconds: float = 0.0  # sending and receiving
    idle_since: float = field(default_factory=time.monotonic)  # begin of the call, or end of its last attempt

    def get_seconds_left(self) -> float:
        """Return the time left to the call or to its sample, whichever is less."""
        return min(self.settings.call_deadline_seconds - self.worked_seconds, self.context.seconds_left)

    @asynccontextmanager
    async def limit_work(self, reply_times: ReplyTimes) -> AsyncIterator[None]:
        """Count the block, one attempt, as work, and cancel it at its timeout or at the call's deadline.

        The timeout is that of the settings, or the learnt one. The last attempt has none.

        Raises:
            AttemptTimeoutError: the attempt took longer than its timeout; the call still has time.
            LMTimeoutError: all attempts together took longer than the deadline.
        """
        began, deadline_seconds = time.monotonic(), self.settings.call_deadline_seconds
        seconds, left = self.settings.attempt_timeout_seconds, deadline_seconds - self.worked_seconds
        seconds = reply_times.get_timeout() if seconds is None else seconds
        if self.faults >= self.settings.num_retries or seconds >= left:
            seconds = math.inf
        try:
            async with asyncio.timeout(min(seconds, left)) as timeout:
                yield
            reply_times.append(time.monotonic() - began)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            if seconds == math.inf:
                message = f"no complete reply within {deadline_seconds:g} s (model.call_deadline_seconds)"
                raise LMTimeoutError(message) from error
            reply_times.append(time.monotonic() - began)
            raise AttemptTimeoutError(
                f"no complete reply within {seconds:.3g} s to attempt {self.count} of a call that may take "
                f"{deadline_seconds:g} s (model.call_deadline_seconds)"
            ) from error
        finally:
            self.worked_seconds += time.monotonic() - began

    def build_retry_policy(self) -> AsyncRetrying:
        """Return the retries: called with a function and its arguments, they raise its last failure."""
        jitter = wait_random_exponential(multiplier=self.settings.retry_base_seconds, max=MAX_WAIT_SECONDS)

        def wait(state: RetryCallState) -> float:
            assert state.outcome is not None
            retry_after: float | None = getattr(state.outcome.exception(), "retry_after", None)
            return jitter(state) if retry_after is None else retry_after

        retry = retry_if_exception(self._is_transient)
        return AsyncRetrying(sleep=self._sleep, wait=wait, stop=self._is_last, retry=retry, reraise=True)

    async def _sleep(self, seconds: float) -> None:
        with self.context.pause_working_time():
            await asyncio.sleep(seconds)

    def _is_transient(self, error: BaseException) -> bool:
        """Count a failure, and return whether the request may be sent again; after a reply without meaning, once."""
        is_refusal = isinstance(error, RateLimitError) or (isinstance(error, ServerError) and error.status in REFUSED)
        is_meaningless = isinstance(error, EmptyReplyError) or type(error) is ProviderError  # no JSON, or nothing
        is_transient = is_refusal or isinstance(error, SERVER_FAULTS) or (is_meaningless and self.faults == 0)
        self.refusals += is_refusal
        self.faults += not is_refusal
        return is_transient

    def _is_last(self, state: RetryCallState) -> bool:
        num_retries = self.settings.num_retries
        if self.faults > num_retries or self.refusals > REFUSALS_PER_RETRY * num_retries:
            return True
        return state.upcoming_sleep >= self.get_seconds_left()
