"""Engines through which every request to a language model passes.

    call log, shared cache → [ limits of sample and run → rate limiter → span → server → cost → call log → validation ]

The part in brackets is one attempt and one span; `mas/llm/retrying.py` decides which failures are retried. Outside a
run nothing is limited and nothing is stored. The deadline of a call bounds the time that its attempts spend sending and
receiving, together; waiting for the rate limiter or for the next attempt is not counted. An attempt has a timeout of
its own, so that a request that hangs is repeated. A synchronous call on the agents' own loop, which waiting would
block, gets one plain attempt.

    AgentLM("openai/any", engine, native_tools=True, deadline_seconds=180.0)      # wraps the engine
"""

import asyncio
import functools
import math
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dspy.lm15 import RateLimitError, Request, Response
from dspy.utils.exceptions import LMTimeoutError

from mas.llm.budget_reservation import BudgetReservation, record_aborted_cost, reserve_budget
from mas.llm.call_policy import CallPolicy
from mas.llm.dspy_engine import Engine, request_to_dict
from mas.llm.prices import FREE
from mas.llm.rate_limiter import BackoffTooLongError, Permit
from mas.llm.replay import Source, StoredReplies
from mas.llm.reply_validation import check_not_empty, record_cost, validate_reply
from mas.llm.retrying import SERVER_FAULTS, AttemptTimeoutError, FailedAttempts, ReplyTimes, build_retry_policy
from mas.runtime.sample_context import SampleContext, SampleKey, current_context
from mas.runtime.trace import span

MEDIA_KINDS = ("image", "audio", "video", "document", "binary")
CHARS_PER_TOKEN = 4  # for the rate limiter's estimate; the server's own count comes with the reply
TYPICAL_REPLY_TOKENS = 300
_ASKS_FOR_JSON = "Outputs will be a JSON object with the following fields."  # DSPy, after a reply it could not parse


@dataclass
class _Call:
    """One request with its attempts."""

    request: Request
    context: SampleContext
    content: dict[str, object] = field(init=False)  # the request as JSON
    deadline_seconds: float  # of all attempts together
    failed: FailedAttempts
    attempts: int = 0
    cut_off: int = 0  # attempts that took longer than their timeout
    worked_seconds: float = 0.0  # sending and receiving
    idle_since: float = field(default_factory=time.monotonic)  # begin of the call, or end of its last attempt

    def __post_init__(self) -> None:
        self.content = request_to_dict(self.request)

    def get_seconds_left(self) -> float:
        """Return the time left to the call or to its sample, whichever is less."""
        return min(self.deadline_seconds - self.worked_seconds, self.context.seconds_left)

    @asynccontextmanager
    async def limit_work(self, attempt_seconds: float) -> AsyncIterator[None]:
        """Count the block, one attempt, as work, and cancel it at its timeout or at the call's deadline.

        Raises:
            AttemptTimeoutError: the attempt took longer than `attempt_seconds`; the call still has time.
            LMTimeoutError: all attempts together took longer than the deadline.
        """
        began, left = time.monotonic(), self.deadline_seconds - self.worked_seconds
        try:
            async with asyncio.timeout(min(attempt_seconds, left)) as timeout:
                yield
        except TimeoutError as error:
            if not timeout.expired():
                raise
            if attempt_seconds < left:
                self.cut_off += 1
                message = (
                    f"no complete reply within {attempt_seconds:.3g} s to attempt {self.attempts} of a call that may "
                    f"take {self.deadline_seconds:g} s (model.call_deadline_seconds)"
                )
                raise AttemptTimeoutError(message) from error
            message = f"no complete reply within {self.deadline_seconds:g} s (model.call_deadline_seconds)"
            raise LMTimeoutError(message, model=self.request.model) from error
        finally:
            self.worked_seconds += time.monotonic() - began

    def describe(self) -> dict[str, object]:
        """Return the request as records store it: media are replaced by their size."""
        return {key: _omit_media(value) for key, value in self.content.items() if key != "model"}

    @property
    def is_repeat(self) -> bool:
        """True after a failed attempt or a reply that DSPy could not parse."""
        return self.attempts > 1 or _ASKS_FOR_JSON in str(self.content.get("system"))

    def span_attributes(self) -> dict[str, object]:
        """Return the attributes with which the span of the current attempt begins."""
        waited = {"waited_seconds": round(time.monotonic() - self.idle_since, 4)}
        return {"attempt": self.attempts, **waited, **({"retry": True} if self.is_repeat else {})}

    def estimate_tokens(self) -> int:
        """Estimate the tokens of the request and its reply."""
        reply_tokens = min(TYPICAL_REPLY_TOKENS, self.request.config.max_tokens or TYPICAL_REPLY_TOKENS)
        return len(str(self.describe())) // CHARS_PER_TOKEN + reply_tokens


class AgentEngine:
    """Asynchronous engine around another one. Copies share the connections."""

    def __init__(self, inner: Engine, policy: CallPolicy) -> None:
        self.inner, self.policy = inner, policy
        self.reply_times = ReplyTimes()

    async def complete(self, request: Request) -> Response:
        """Return a stored or a new reply.

        Raises:
            LimitReachedError: a limit of the sample or the run was reached.
            LM15Error: the request failed, after its retries.
            LMTimeoutError: there was no complete reply in time.
            TruncatedReplyError, RefusedReplyError, EmptyReplyError, TruncatedPromptError: the reply is not valid.
        """
        context, policy = current_context() or SampleContext(SampleKey("")), self.policy
        request = policy.complete_request(request)
        limiter = policy.rate_limiter
        failed = FailedAttempts(policy.num_retries, lambda: limiter.answered if limiter else 0)
        call = _Call(request, context, policy.deadline_seconds, failed)
        stored = StoredReplies(call.context, policy.url, call.content)
        if (found := stored.find()) is not None:
            return self._replay(call, *found)
        retries = build_retry_policy(context, failed, policy.retry_base_seconds, call.get_seconds_left)
        response: Response = await retries(self._attempt, call, stored)
        return response

    def _replay(self, call: _Call, response: Response, source: Source) -> Response:
        """Count and validate a stored reply as if it came from the server."""
        call.attempts += 1
        call.context.count_lm_call()
        attributes = {**call.span_attributes(), source: True}
        with span("lm", call.request.model, inputs=call.describe(), **attributes) as current:
            record_cost(response, FREE if source == "cached" else self.policy.price, call.context, current)
            return validate_reply(call.request, response, self.policy.limits, current)

    async def _attempt(self, call: _Call, stored: StoredReplies) -> Response:
        """Send one request. Its cost is settled before the reply is stored: if the process dies in between, it is
        sent and paid again, and both are counted."""
        call.attempts += 1
        await call.context.await_budget()
        with reserve_budget(call.context) as reservation:
            try:
                async with self._admit(call) as permit:
                    return await self._send(call, stored, permit, reservation)
            finally:
                call.idle_since = time.monotonic()

    async def _send(
        self, call: _Call, stored: StoredReplies, permit: Permit | None, reservation: BudgetReservation
    ) -> Response:
        policy = self.policy
        with span("lm", call.request.model, inputs=call.describe(), **call.span_attributes()) as current:
            policy.limits.check_inputs(call.request)
            with record_aborted_cost(policy.price, reservation, current):
                response = await self._receive(call, permit)
            reservation.pay(record_cost(response, policy.price, call.context, current))
            check_not_empty(response)
            stored.store(response)
            return validate_reply(call.request, response, policy.limits, current)

    @asynccontextmanager
    async def _admit(self, call: _Call) -> AsyncIterator[Permit | None]:
        """Wait for the rate limiter's permit; None without a rate limiter."""
        limiter = self.policy.rate_limiter
        if limiter is None:
            yield None
            return
        tokens = call.estimate_tokens() if self.policy.counts_tokens else 0
        with call.context.pause_working_time():
            try:
                permit = await limiter.acquire(tokens, call.get_seconds_left)
            except BackoffTooLongError as error:
                message = f"{error}: the server has asked for a pause that is longer than this call may last"
                raise RateLimitError(message, retry_after=error.seconds) from error
        with permit:
            yield permit

    async def _receive(self, call: _Call, permit: Permit | None) -> Response:
        """Return the server's reply, and report the outcome to the rate limiter."""
        began = time.monotonic()
        try:
            async with call.limit_work(self._get_attempt_seconds(call)):
                response = await self.inner.complete(call.request)
        except AttemptTimeoutError:  # tells the rate limiter nothing
            self.reply_times.record(time.monotonic() - began)
            raise
        except RateLimitError as error:
            if permit is not None:
                permit.record_rate_limit(error.retry_after)
            raise
        except SERVER_FAULTS:
            if permit is not None:
                permit.record_server_error()
            raise
        if permit is not None:
            permit.record_success()
        self.reply_times.record(time.monotonic() - began)
        return response

    def _get_attempt_seconds(self, call: _Call) -> float:
        """Return the timeout of the call's next attempt: longer after one that was cut off, none for the last one.

        Nothing is cut off before there are replies to learn from: a slow server would be asked again and again.
        """
        policy = self.policy
        if call.failed.is_next_fault_final:
            return math.inf
        if policy.attempt_timeout_seconds is not None:
            return policy.attempt_timeout_seconds
        return self.reply_times.get_timeout() * 2.0**call.cut_off

    def __deepcopy__(self, memo: dict[int, object]) -> "AgentEngine":
        return self


class SyncAgentEngine:
    """Synchronous counterpart: one attempt on a loop of its own, without rate limiter, call log and cache."""

    def __init__(self, inner: Engine, policy: CallPolicy) -> None:
        self.inner, self.policy = inner, policy

    def complete(self, request: Request) -> Response:
        context, policy = current_context() or SampleContext(SampleKey("")), self.policy
        request = policy.complete_request(request)
        call = _Call(request, context, policy.deadline_seconds, FailedAttempts(0, lambda: 0), attempts=1)
        with (
            reserve_budget(context) as reservation,
            span("lm", request.model, inputs=call.describe(), **call.span_attributes()) as current,
        ):
            policy.limits.check_inputs(request)
            with record_aborted_cost(policy.price, reservation, current):
                response = _run_aside(self.inner.complete(request))
            reservation.pay(record_cost(response, policy.price, context, current))
            check_not_empty(response)
            return validate_reply(request, response, policy.limits, current)

    def __deepcopy__(self, memo: dict[int, object]) -> "SyncAgentEngine":
        return self


def _run_aside(reply: Coroutine[object, object, Response]) -> Response:
    return asyncio.run_coroutine_threadsafe(reply, _start_side_loop()).result()


@functools.cache
def _start_side_loop() -> asyncio.AbstractEventLoop:
    """Return a loop in a thread of its own, the same for all calls, which thus share their connections."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="synchronous model calls", daemon=True).start()
    return loop


def _omit_media(value: object) -> object:
    """Replace base64 data by its size: a record would hold an image once for each request that carries it."""
    if isinstance(value, list):
        return [_omit_media(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") in MEDIA_KINDS and isinstance(data := value.get("data"), str):
        return {**value, "data": f"[{len(data)} characters of base64]"}
    return {key: _omit_media(item) for key, item in value.items()}
