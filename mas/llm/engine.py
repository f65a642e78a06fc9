"""Every request to a language model passes here.

    call log, shared cache → [ limits of question and run → turn at the gate → span → server → cost → log → acceptance ]

The part in brackets is one attempt, and one span; `mas/llm/retrying.py` says which are repeated. Outside a run nothing
is limited and nothing is kept. The call's deadline bounds what its attempts take to send and to receive, together;
waiting for a turn or for the next attempt is not counted. A synchronous call on the agents' own loop, which waiting
would block, gets one plain attempt.

    dspy.LM("openai/any", engine=SyncAgentEngine(inner, terms), async_engine=AgentEngine(inner, terms))
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from dspy._vendor.lm15.serde import request_to_dict
from dspy.lm15 import RateLimitError, Request, Response
from dspy.utils.exceptions import LMTimeoutError

from mas.llm.budget_reservation import BudgetReservation, record_aborted_cost, reserve_budget
from mas.llm.call_policy import CallPolicy
from mas.llm.prices import FREE
from mas.llm.rate_limiter import BackoffTooLongError
from mas.llm.replay import Source, StoredReplies
from mas.llm.reply_validation import check_not_empty, record_cost, validate_reply
from mas.llm.retrying import SERVER_FAULTS, build_retry_policy
from mas.runtime.sample_context import SampleContext, SampleKey, current_context
from mas.runtime.trace import span

MEDIA_KINDS = ("image", "audio", "video", "document", "binary")
CHARS_PER_TOKEN = 4  # of what a request is taken to need at the gate; the server's own count comes with the reply
TYPICAL_REPLY_TOKENS = 300
_ASKS_FOR_JSON = "Outputs will be a JSON object with the following fields."  # DSPy, after a reply it could not read


@dataclass
class _Call:
    """One request with its attempts."""

    request: Request
    context: SampleContext
    content: dict[str, Any] = field(init=False)  # the request as JSON
    deadline_seconds: float  # of all attempts together
    attempts: int = 0
    worked_seconds: float = 0.0  # sending and receiving
    idle_since: float = field(default_factory=time.monotonic)  # when it came, or when its last attempt ended

    def __post_init__(self) -> None:
        self.content = request_to_dict(self.request)

    def remaining_seconds(self) -> float:
        """Of its own time or its question's, whichever is less."""
        return min(self.deadline_seconds - self.worked_seconds, self.context.seconds_left)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """
        Raises:
            LMTimeoutError: all its attempts together have taken its time.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.deadline_seconds - self.worked_seconds) as timeout:
                yield
        except TimeoutError as error:
            if not timeout.expired():
                raise
            message = f"no complete reply within {self.deadline_seconds:g} s (model.call_deadline_seconds)"
            raise LMTimeoutError(message, model=self.request.model) from error
        finally:
            self.worked_seconds += time.monotonic() - began

    def shown(self) -> dict[str, Any]:
        """The request as the record keeps it."""
        return {key: _without_media(value) for key, value in self.content.items() if key != "model"}

    @property
    def is_repeat(self) -> bool:
        """Whether it is sent because of a failure: of the attempt before, or of a reply that DSPy could not read."""
        return self.attempts > 1 or _ASKS_FOR_JSON in str(self.content.get("system"))

    def attributes(self) -> dict[str, Any]:
        """What the span of the newest attempt says of it at its beginning."""
        waited = {"waited_seconds": round(time.monotonic() - self.idle_since, 4)}
        return {"attempt": self.attempts, **waited, **({"retry": True} if self.is_repeat else {})}

    def tokens(self) -> int:
        """What the request and its reply will about cost."""
        reply_tokens = min(TYPICAL_REPLY_TOKENS, self.request.config.max_tokens or TYPICAL_REPLY_TOKENS)
        return len(str(self.shown())) // CHARS_PER_TOKEN + reply_tokens


class AgentEngine:
    """An asynchronous engine of DSPy's LM over another one. Copies share the connections."""

    def __init__(self, inner: Any, policy: CallPolicy) -> None:
        self.inner, self.policy = inner, policy

    async def complete(self, request: Request) -> Response:
        """The reply, kept or new.

        Raises:
            LimitReachedError: the question, or its run, may not ask any more.
            LM15Error: the request failed, after its retries.
            LMTimeoutError: no whole answer in time.
            TruncatedReplyError, RefusedReplyError, EmptyReplyError, TruncatedPromptError: no whole answer came back.
        """
        context, terms = current_context() or SampleContext(SampleKey("")), self.policy
        call = _Call(request, context, terms.deadline_seconds)
        kept = StoredReplies(call.context, terms.url, call.content)
        if (found := kept.find()) is not None:
            return self._taken_from(call, *found)
        attempts = build_retry_policy(call.context, terms.num_retries, terms.retry_base_seconds, call.remaining_seconds)
        response: Response = await attempts(self._attempt, call, kept)
        return response

    def _taken_from(self, call: _Call, response: Response, source: Source) -> Response:
        """As if it came from the server: it counts, and is as whole or as truncated as it was then."""
        call.attempts += 1
        call.context.count_lm_call()
        attributes = {**call.attributes(), source: True}
        with span("lm", call.request.model, inputs=call.shown(), **attributes) as current:
            record_cost(response, FREE if source == "cached" else self.policy.price, call.context, current)
            return validate_reply(call.request, response, self.policy.limits, current)

    async def _attempt(self, call: _Call, kept: StoredReplies) -> Response:
        """One request. It is paid for before its reply is kept: a run killed in between pays again and counts both."""
        call.attempts += 1
        with reserve_budget(call.context) as bill:
            try:
                async with self._admitted(call) as slot:
                    return await self._answered(call, kept, slot, bill)
            finally:
                call.idle_since = time.monotonic()

    async def _answered(self, call: _Call, kept: StoredReplies, permit: Any, bill: BudgetReservation) -> Response:
        terms = self.policy
        with span("lm", call.request.model, inputs=call.shown(), **call.attributes()) as current:
            terms.limits.check_inputs(call.request)
            with record_aborted_cost(terms.price, bill, current):
                response = await self._sent(call, permit)
            bill.pay(record_cost(response, terms.price, call.context, current))
            check_not_empty(response)
            kept.keep(response)
            return validate_reply(call.request, response, terms.limits, current)

    @asynccontextmanager
    async def _admitted(self, call: _Call) -> AsyncIterator[Any]:
        """A slot at the gate; None if there is no gate."""
        if self.policy.rate_limiter is None:
            yield None
            return
        async with AsyncExitStack() as stack:
            with call.context.pause_working_time():
                tokens = call.tokens() if self.policy.counts_tokens else 0
                try:
                    slot = await stack.enter_async_context(
                        self.policy.rate_limiter.admit(tokens, call.remaining_seconds)
                    )
                except BackoffTooLongError as error:
                    message = f"{error}: the server has asked for a pause that is longer than this call may last"
                    raise RateLimitError(message, retry_after=error.seconds) from error
            yield slot

    async def _sent(self, call: _Call, permit: Any) -> Response:
        """The server's reply; the gate is told how it went."""
        try:
            async with call.working():
                response: Response = await self.inner.complete(call.request)
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
        return response

    def __deepcopy__(self, memo: dict[int, Any]) -> "AgentEngine":
        return self


class SyncAgentEngine:
    """The synchronous counterpart: one attempt, without gate, log and cache."""

    def __init__(self, inner: Any, policy: CallPolicy) -> None:
        self.inner, self.policy = inner, policy

    def complete(self, request: Request) -> Response:
        context, terms = current_context() or SampleContext(SampleKey("")), self.policy
        call = _Call(request, context, terms.deadline_seconds, attempts=1)
        with (
            reserve_budget(context) as bill,
            span("lm", request.model, inputs=call.shown(), **call.attributes()) as current,
        ):
            terms.limits.check_inputs(request)
            with record_aborted_cost(terms.price, bill, current):
                response: Response = self.inner.complete(request)
            bill.pay(record_cost(response, terms.price, context, current))
            check_not_empty(response)
            return validate_reply(request, response, terms.limits, current)

    def __deepcopy__(self, memo: dict[int, Any]) -> "SyncAgentEngine":
        return self


def _without_media(value: Any) -> Any:
    """Megabytes of an image would be in the record once for every request that carries it."""
    if isinstance(value, list):
        return [_without_media(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") in MEDIA_KINDS and isinstance(data := value.get("data"), str):
        return {**value, "data": f"[{len(data)} characters of base64]"}
    return {key: _without_media(item) for key, item in value.items()}
