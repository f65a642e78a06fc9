"""Engines through which every request to a language model passes.

    call log, shared cache → [ limits of sample and run → rate limiter → span → server → cost → call log → validation ]

The part in brackets is one attempt and one span; `mas/llm/retrying.py` decides which failures are retried. Outside a
run nothing is limited and nothing is stored. The deadline of a call bounds the time that its attempts spend sending and
receiving, together; waiting for the rate limiter or for the next attempt is not counted. A synchronous call on the
agents' own loop, which waiting would block, gets one plain attempt.

The key of a stored reply covers everything that it depends on: the endpoint, the request with its media, the epoch, and
the number of times the sample has sent that same request before (a critic that is asked the same twice gets two
replies). In the call log the attempt is part of the key as well, so a repeated attempt draws new replies. Stored is the
server's reply before validation, so that a truncated reply is reported as truncated again; failures are not stored.

    AgentLM("openai/any", engine, native_tools=True, deadline_seconds=180.0)      # wraps the engine
"""

import asyncio
import dataclasses
import functools
import hashlib
import json
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

from dspy.lm15 import (
    AuthError,
    BillingError,
    CapabilityError,
    ConfigurationError,
    InvalidRequestError,
    RateLimitError,
    Request,
    Response,
    ServerError,
)
from dspy.utils.exceptions import LMUnsupportedFeatureError

from mas.llm.call_policy import CallPolicy
from mas.llm.dspy_engine import Engine, NeverSentError, request_to_dict, response_from_dict, response_to_dict
from mas.llm.prices import FREE, Price
from mas.llm.rate_limiter import BackoffTooLongError, Permit
from mas.llm.reply_validation import check_not_empty, record_cost, validate_reply
from mas.llm.retrying import SERVER_FAULTS, Attempts, AttemptTimeoutError, ReplyTimes
from mas.runtime.sample_context import Payment, ReplyLog, SampleContext, SampleKey, current_context
from mas.runtime.trace import Span, span

Source = Literal["replayed", "cached"]  # "replayed": from the call log, paid by this run; "cached": paid by another run
MEDIA_KINDS = ("image", "audio", "video", "document", "binary")
CHARS_PER_TOKEN = 4  # for the rate limiter's estimate; the server's own count comes with the reply
TYPICAL_REPLY_TOKENS = 300
_ASKS_FOR_JSON = "Outputs will be a JSON object with the following fields."  # DSPy, after a reply it could not parse
# Errors that cost nothing. 5xx too: providers bill replies, and it has none. 408 and 504 are errors of another class.
_REFUSED = (AuthError, BillingError, InvalidRequestError, RateLimitError, ServerError)
_NEVER_SENT = (NeverSentError, LMUnsupportedFeatureError, CapabilityError, ConfigurationError)


class StoredReplies:
    """Stored replies to one request of one sample. Without call log and cache nothing is computed."""

    def __init__(self, context: SampleContext, url: str, request: dict[str, object]) -> None:
        self._places: list[tuple[Source, ReplyLog, str]] = []
        if context.call_log is None and context.shared_cache is None:
            return
        sample_key = context.key
        digest = _digest(url, request)
        occurrence = context.request_counts[digest] = context.request_counts.get(digest, 0) + 1
        if context.call_log is not None:
            key = _digest(digest, sample_key.epoch, sample_key.attempt, occurrence)
            self._places.append(("replayed", context.call_log, key))
        if context.shared_cache is not None:
            self._places.append(("cached", context.shared_cache, _digest(digest, sample_key.epoch, occurrence)))

    def find(self) -> tuple[Response, Source] | None:
        for source, replies, key in self._places:
            if (text := replies.get(key)) is not None:
                return response_from_dict(json.loads(text)), source
        return None

    def store(self, response: Response) -> None:
        if self._places:
            text = json.dumps(response_to_dict(response))
            for _, replies, key in self._places:
                replies.put(key, text)


@dataclass
class _Call:
    """One request with its attempts."""

    request: Request
    content: dict[str, object]  # the request as JSON
    inputs: dict[str, object]  # the same as records store it: media are replaced by their size
    context: SampleContext
    attempts: Attempts
    begins_with_json: bool = False  # model.output=json_schema

    def open_span(self, **attributes: object) -> AbstractContextManager[Span]:
        """Open the span of the current attempt; `retry` also marks DSPy's second request for a readable reply."""
        waited_seconds = round(time.monotonic() - self.attempts.idle_since, 4)
        asks_again = not self.begins_with_json and _ASKS_FOR_JSON in str(self.content.get("system"))
        if self.attempts.count > 1 or asks_again:
            attributes["retry"] = True
        attributes |= {"attempt": self.attempts.count, "waited_seconds": waited_seconds}
        return span("lm", self.request.model, inputs=self.inputs, **attributes)

    def estimate_tokens(self) -> int:
        """Estimate the tokens of the request and its reply."""
        reply_tokens = min(TYPICAL_REPLY_TOKENS, self.request.config.max_tokens or TYPICAL_REPLY_TOKENS)
        return len(str(self.inputs)) // CHARS_PER_TOKEN + reply_tokens


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
        call = self._open_call(request)
        stored = StoredReplies(call.context, self.policy.url, call.content)
        if (found := stored.find()) is not None:
            return self._replay(call, *found)
        response: Response = await call.attempts.build_retry_policy()(self._attempt, call, stored)
        return response

    async def complete_at_once(self, request: Request) -> Response:
        """Send the request once, without rate limiter, retries, call log and cache."""
        call = self._open_call(request)
        call.attempts.count, call.attempts.num_retries = 1, 0
        call.context.reserve_lm_call()
        return await self._send(call, None, None)

    def _open_call(self, request: Request) -> _Call:
        policy, context = self.policy, current_context() or SampleContext(SampleKey(""))
        if policy.extra_body:
            extensions = {**(request.config.extensions or {}), **policy.extra_body}
            request = dataclasses.replace(request, config=dataclasses.replace(request.config, extensions=extensions))
        attempts = Attempts(context, policy.num_retries, policy.retry_base_seconds, policy.deadline_seconds)
        content = request_to_dict(request)
        inputs = {key: _omit_media(value) for key, value in content.items() if key != "model"}
        return _Call(request, content, inputs, context, attempts, self.policy.begins_with_json)

    def _replay(self, call: _Call, response: Response, source: Source) -> Response:
        """Count and validate a stored reply as if it came from the server."""
        call.attempts.count += 1
        call.context.count_lm_call()
        with call.open_span(**{source: True}) as current:
            record_cost(response, FREE if source == "cached" else self.policy.price, call.context, current)
            return validate_reply(call.request, response, self.policy.limits, current)

    async def _attempt(self, call: _Call, stored: StoredReplies) -> Response:
        """Wait for a turn, and send the request. It is reserved in the run's budget before, and settled once."""
        call.attempts.count += 1
        await call.context.await_budget()
        call.context.reserve_lm_call()
        try:
            permit = await self._acquire_permit(call)
        except BaseException:
            call.context.budget.settle(None)
            raise
        try:
            with permit or nullcontext():
                return await self._send(call, permit, stored)
        finally:
            call.attempts.idle_since = time.monotonic()

    async def _acquire_permit(self, call: _Call) -> Permit | None:
        """Wait for the rate limiter's permit; None without a rate limiter."""
        limiter = self.policy.rate_limiter
        if limiter is None:
            return None
        with call.context.pause_working_time():
            try:
                return await limiter.acquire(call.estimate_tokens(), call.attempts.get_seconds_left)
            except BackoffTooLongError as error:
                message = f"{error}: the server has asked for a pause that is longer than this call may last"
                raise RateLimitError(message, retry_after=error.seconds) from error

    async def _send(self, call: _Call, permit: Permit | None, stored: StoredReplies | None) -> Response:
        """Send the request, which is reserved. Its cost is settled before the reply is stored: if the process dies in
        between, it is sent and paid again, and both are counted."""
        policy, budget = self.policy, call.context.budget
        with call.open_span() as current:
            try:
                policy.limits.check_inputs(call.request)
                response = await self._receive(call, permit)
            except BaseException as error:
                budget.settle(_find_aborted_cost(error, policy.price, current))
                raise
            budget.settle(record_cost(response, policy.price, call.context, current))
            check_not_empty(response)
            if stored is not None:
                stored.store(response)
            return validate_reply(call.request, response, policy.limits, current)

    async def _receive(self, call: _Call, permit: Permit | None) -> Response:
        """Return the server's reply, and report the outcome to the rate limiter."""
        began = time.monotonic()
        timeout_seconds = call.attempts.get_timeout(self.policy.attempt_timeout_seconds, self.reply_times)
        try:
            async with call.attempts.limit_work(timeout_seconds):
                response = await self.inner.complete(call.request)
        except AttemptTimeoutError:  # tells the rate limiter nothing
            self.reply_times.record(time.monotonic() - began)
            raise
        except (RateLimitError, *SERVER_FAULTS) as error:
            if permit is not None and isinstance(error, RateLimitError):
                permit.record_rate_limit(error.retry_after)
            elif permit is not None:
                permit.record_server_error()
            raise
        if permit is not None:
            permit.record_success()
        self.reply_times.record(time.monotonic() - began)
        return response

    def __deepcopy__(self, memo: dict[int, object]) -> "AgentEngine":
        return self


class SyncAgentEngine:
    """Synchronous counterpart: one plain attempt, on a loop of its own."""

    def __init__(self, engine: AgentEngine) -> None:
        self._engine = engine

    def complete(self, request: Request) -> Response:
        return asyncio.run_coroutine_threadsafe(self._engine.complete_at_once(request), _start_side_loop()).result()

    def __deepcopy__(self, memo: dict[int, object]) -> "SyncAgentEngine":
        return self


@functools.cache
def _start_side_loop() -> asyncio.AbstractEventLoop:
    """Return a loop in a thread of its own, the same for all calls, which thus share their connections."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="synchronous model calls", daemon=True).start()
    return loop


def _find_aborted_cost(error: BaseException, price: Price | None, current: Span) -> Payment | None:
    """Return the cost of a request that failed: none if it was never sent or refused, else unknown."""
    if isinstance(error, _REFUSED):
        return Payment(cost_usd=0.0, refused=True)
    if isinstance(error, _NEVER_SENT):
        return None
    is_free = price is not None and not (price.input_usd_per_million or price.output_usd_per_million)
    current.attributes["cost_usd"] = 0.0 if is_free else None
    return Payment(cost_usd=0.0 if is_free else None)


def _omit_media(value: object) -> object:
    """Replace base64 data by its size: a record would hold an image once for each request that carries it."""
    if isinstance(value, list):
        return [_omit_media(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") in MEDIA_KINDS and isinstance(data := value.get("data"), str):
        return {**value, "data": f"[{len(data)} characters of base64]"}
    return {key: _omit_media(item) for key, item in value.items()}


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()
