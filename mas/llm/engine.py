"""Engine through which every request to a language model passes.

    call log → [ limits of sample and run → rate limiter → span → server → cost → validation → call log ]

The part in brackets is one attempt and one span. This is the only retry layer; the rules of waits and timeouts are in
docs/reference/errors.md and model-requests.md.

The key of a stored reply covers endpoint, request with media, epoch, attempt, and how often the sample has sent that
request before: a critic that is asked the same twice gets two replies. Stored is the reply before its validation.
"""

import asyncio
import dataclasses
import hashlib
import json
import math
import time
from collections import deque
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dspy import lm15
from dspy.utils.exceptions import LMError, LMTimeoutError, LMUnsupportedFeatureError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.wait import wait_random_exponential

from mas.llm import ASKS_AGAIN, CallSettings
from mas.llm.prices import Price
from mas.llm.reply_validation import record_cost, validate_reply
from mas.prompt_sets.dspy_internals import request_to_dict, response_from_dict, response_to_dict
from mas.runtime.lm_errors import EmptyReplyError
from mas.runtime.sample_context import Payment, ReplyLog, SampleContext, SampleKey, current_context
from mas.runtime.trace import Span, span

if TYPE_CHECKING:
    from mas.llm.rate_limiter import RateLimiter, RequestPermit

CHARS_PER_TOKEN = 4  # for the rate limiter's estimate; the server's own count comes with the reply
TYPICAL_REPLY_TOKENS = 300
MAX_WAIT_SECONDS = 60.0  # unless the server asks for a longer one
SERVER_FAULTS = (lm15.ServerError, lm15.TimeoutError, lm15.TransportError)
REFUSED = (503, 529)  # server errors that mean "not now", as 429 does
REFUSALS_PER_RETRY = 4  # a call may be refused so many times as often as it may fail
MIN_REPLIES, MAX_REPLIES = 10, 100  # before anything is learnt; newest ones that count
MIN_TIMEOUT_SECONDS = 10.0  # of an attempt, if it is learnt
_ASKS_FOR_JSON = "Outputs will be a JSON object with the following fields."  # DSPy, after a bad reply


class NeverSentError(lm15.TransportError):
    """There was no connection, so nothing was sent."""


class Engine(Protocol):
    """Sends one request, without retries: the part of DSPy's asynchronous engines that our LMs use."""

    async def complete(self, request: lm15.Request) -> lm15.Response: ...


_NEVER_SENT = (NeverSentError, LMUnsupportedFeatureError, lm15.CapabilityError, lm15.ConfigurationError)


@dataclass(frozen=True)
class CallPolicy:
    """What all calls of one LM share."""

    url: str = ""  # endpoint, part of the key of stored replies; "offline": the simulated model
    native_tools: bool = True
    key_variable: str | None = None  # environment variable with the key, for messages
    price: Price | None = None  # None: unknown
    rate_limiter: "RateLimiter | None" = None  # of all LMs of a profile; None: any number at once
    settings: CallSettings = field(default_factory=CallSettings)

    def check_inputs(self, request: lm15.Request) -> None:
        """Check that the profile allows a request's media; LMUnsupportedFeatureError: it does not."""
        images, sounds = self.settings.takes_images, self.settings.takes_audio
        kinds = {part.type for message in request.messages for part in message.parts}
        for kind, is_taken, key in (("image", images, "images"), ("audio", sounds, "audio")):
            if kind in kinds and not is_taken:
                message = f"not sent: the model's profile says that it takes no {key} (model.takes_{key}=false)"
                raise LMUnsupportedFeatureError(message, model=request.model, features=[kind])


def learn_timeout(reply_seconds: Collection[float]) -> float:
    """Return when an attempt has probably hung: after five times the seconds of 9 in 10 replies."""
    if len(reply_seconds) < MIN_REPLIES:
        return math.inf
    slow_seconds = sorted(reply_seconds)[math.ceil(0.9 * len(reply_seconds)) - 1]
    return max(MIN_TIMEOUT_SECONDS, 5.0 * slow_seconds)


@dataclass
class _Call:
    """One request with its attempts, and the time that they took."""

    policy: CallPolicy
    context: SampleContext
    request: lm15.Request
    content: dict[str, object]  # the request as JSON
    inputs: dict[str, object]  # the same as records store it: media are replaced by their size
    reply_seconds: deque[float]  # of the newest replies to this LM
    place: tuple[ReplyLog, str] | None = None  # of its stored reply, with its key there
    count: int = 0
    faults: int = 0
    refusals: int = 0
    worked_seconds: float = 0.0  # sending and receiving
    idle_since: float = field(default_factory=time.monotonic)  # begin, or end of the last attempt

    def find_stored_reply(self) -> str | None:
        """Return the reply that an earlier session has paid for, or note where to store a new one."""
        context, sample = self.context, self.context.key
        if (log := context.call_log) is None:
            return None
        digest = _digest(self.policy.url, self.content)
        occurrence = context.request_counts[digest] = context.request_counts.get(digest, 0) + 1
        key = _digest(digest, sample.epoch, sample.attempt, occurrence)
        if (text := log.get(key)) is None:
            self.place = log, key
        return text

    def open_span(self, **attributes: object) -> AbstractContextManager[Span]:
        """Open the span of an attempt; `retry` also marks a second request for a readable reply."""
        newest = [part for message in self.request.messages[-1:] for part in message.parts]
        asks_again = any(ASKS_AGAIN in part.text for part in newest if isinstance(part, lm15.TextPart))
        if self.count > 1 or asks_again or _ASKS_FOR_JSON in str(self.content.get("system")):
            attributes["retry"] = True
        attributes |= {"attempt": self.count, "waited_seconds": round(time.monotonic() - self.idle_since, 4)}
        return span("lm", self.request.model, inputs=self.inputs, **attributes)

    async def acquire_permit(self) -> "AbstractContextManager[RequestPermit | None]":
        if (limiter := self.policy.rate_limiter) is None:
            return nullcontext()
        tokens = 0
        if limiter.counts_tokens:
            tokens = len(str(self.inputs)) // CHARS_PER_TOKEN
            tokens += min(TYPICAL_REPLY_TOKENS, self.request.config.max_tokens or TYPICAL_REPLY_TOKENS)
        with self.context.count_waiting():
            return await limiter.acquire(tokens)

    async def send(self, engine: Engine) -> lm15.Response:
        """Send the request, until the attempt's timeout (the last has none) or the call's deadline."""
        began, settings = time.monotonic(), self.policy.settings
        left = settings.call_deadline_seconds - self.worked_seconds
        seconds = settings.attempt_timeout_seconds or learn_timeout(self.reply_seconds)
        is_last = self.faults >= settings.num_retries or seconds >= left
        try:
            async with asyncio.timeout(left if is_last else seconds) as timeout:
                response = await engine.complete(self.request)
            self.reply_seconds.append(time.monotonic() - began)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            if is_last:
                limit = f"{settings.call_deadline_seconds:g} s (model.call_deadline_seconds)"
                raise LMTimeoutError(f"no complete reply within {limit}") from error
            self.reply_seconds.append(time.monotonic() - began)
            raise lm15.TimeoutError(f"no complete reply within {seconds:.3g} s to attempt {self.count}") from error
        finally:
            self.idle_since = time.monotonic()
            self.worked_seconds += self.idle_since - began
        return response

    def is_transient(self, error: BaseException) -> bool:
        """Count a failure; return whether the request may be sent again (after an empty reply once)."""
        is_busy = isinstance(error, lm15.ServerError) and error.status in REFUSED
        is_refusal = is_busy or isinstance(error, lm15.RateLimitError)
        is_meaningless = isinstance(error, EmptyReplyError) or type(error) is lm15.ProviderError
        is_transient = is_refusal or isinstance(error, SERVER_FAULTS) or (is_meaningless and self.faults == 0)
        self.refusals += is_refusal
        self.faults += not is_refusal
        return is_transient

    def choose_wait(self, state: RetryCallState) -> float:
        retry_after: float | None = getattr(state.outcome and state.outcome.exception(), "retry_after", None)
        jitter = wait_random_exponential(multiplier=self.policy.settings.retry_base_seconds, max=MAX_WAIT_SECONDS)
        return jitter(state) if retry_after is None else retry_after

    def is_last(self, state: RetryCallState) -> bool:
        settings = self.policy.settings
        if self.faults > settings.num_retries or self.refusals > REFUSALS_PER_RETRY * settings.num_retries:
            return True
        left = min(settings.call_deadline_seconds - self.worked_seconds, self.context.seconds_left)
        return state.upcoming_sleep >= left

    async def sleep(self, seconds: float) -> None:
        with self.context.count_waiting():
            await asyncio.sleep(seconds)

    def find_aborted_cost(self, error: BaseException, current: Span) -> Payment | None:
        """Return a failed attempt's cost; known if it was never sent, or refused (not by 408 or 504)."""
        if isinstance(error, _NEVER_SENT):
            return None
        is_answered = isinstance(error, lm15.ProviderError) and type(error) is not lm15.ProviderError
        if is_answered and not isinstance(error, lm15.TimeoutError):
            return Payment(cost_usd=0.0, refused=True)
        is_free = self.policy.price is not None and self.policy.price.is_free
        cost_usd = current.attributes["cost_usd"] = 0.0 if is_free else None
        return Payment(cost_usd=cost_usd)

    def finish(self, response: lm15.Response, current: Span) -> lm15.Response:
        """Return the validated reply, and store the server's own unless it is empty, to be drawn again."""
        reply = validate_reply(response, self.policy.settings, current)
        if self.place and not isinstance(reply, EmptyReplyError):
            log, key = self.place
            log.put(key, json.dumps(response_to_dict(response)))
        if isinstance(reply, LMError):
            raise reply
        return reply


class AgentEngine:
    """Asynchronous engine around another one. Copies share the connections."""

    def __init__(self, inner: Engine, policy: CallPolicy) -> None:
        self.inner, self.policy = inner, policy
        self.reply_seconds: deque[float] = deque(maxlen=MAX_REPLIES)

    async def complete(self, request: lm15.Request) -> lm15.Response:
        """Return a stored or a new reply; LimitReachedError: a limit of the sample or the run.

        LM15Error, LMTimeoutError: the request failed, after its retries. LMError: the reply is not valid.
        """
        if extra := self.policy.settings.extra_body:
            extensions = {**(request.config.extensions or {}), **extra}
            request = dataclasses.replace(request, config=dataclasses.replace(request.config, extensions=extensions))
        content = request_to_dict(request)
        inputs = {key: _omit_media(value) for key, value in content.items() if key != "model"}
        context = current_context() or SampleContext(SampleKey(""))
        call = _Call(self.policy, context, request, content, inputs, self.reply_seconds)
        if (text := call.find_stored_reply()) is not None:
            return self._replay(call, response_from_dict(json.loads(text)))
        retry = retry_if_exception(call.is_transient)
        retries = AsyncRetrying(retry=retry, wait=call.choose_wait, stop=call.is_last, sleep=call.sleep, reraise=True)
        response: lm15.Response = await retries(self._attempt, call)
        return response

    def _replay(self, call: _Call, response: lm15.Response) -> lm15.Response:
        """Count and validate a stored reply as if it came from the server."""
        call.count += 1
        call.context.count_lm_call()
        with call.open_span(replayed=True) as current:
            record_cost(response, self.policy.price, call.context, current)
            return call.finish(response, current)

    async def _attempt(self, call: _Call) -> lm15.Response:
        """Wait for a turn and send the request, reserved in the run's budget before and settled once."""
        call.count += 1
        await call.context.reserve_lm_call()
        budget = call.context.budget
        try:
            permit = await call.acquire_permit()
        except BaseException:
            budget.settle(None)
            raise
        with permit as turn, call.open_span() as current:
            try:
                self.policy.check_inputs(call.request)
                response = await call.send(self.inner)
            except BaseException as error:
                budget.settle(call.find_aborted_cost(error, current))
                if turn is not None and isinstance(error, lm15.RateLimitError):
                    turn.record_rate_limit(error.retry_after)
                elif turn is not None and isinstance(error, SERVER_FAULTS):
                    turn.record_server_error()
                raise
            if turn is not None:
                turn.record_success()
            # Before the reply is stored: if the process dies in between, the request is paid and counted twice.
            budget.settle(record_cost(response, self.policy.price, call.context, current))
            return call.finish(response, current)

    def __deepcopy__(self, memo: dict[int, object]) -> "AgentEngine":
        return self


def _omit_media(value: object) -> object:
    """Replace base64 data by its size: a record would hold an image once for each request."""
    if isinstance(value, list):
        return [_omit_media(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "media_type" in value and isinstance(data := value.get("data"), str):
        return {**value, "data": f"[{len(data)} characters of base64]"}
    return {key: _omit_media(item) for key, item in value.items()}


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()
