"""The question at work: which sample it is, what it may still spend, and the replies it already has.

One object a (question, epoch, attempt), carried by the context: the model client and the tools ask it without having
been handed anything, and code outside a run (an optimiser, a script) works without one.

    question = Question(Sample("q1"), QuestionLimits(lm_calls=20))
    with at_work(question):
        ...                                  # the model client calls current_question().spend_lm_call()
    question.cost_usd                        # 0.0013
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class SampleKey:
    """Which draw of which question this is; numbers from 1."""

    sample_id: str
    epoch: int = 1
    attempt: int = 1


@dataclass
class SampleLimits:
    """What one question may spend; null: no limit. Its wall time is `run.deadline_seconds`."""

    working_seconds: float | None = None  # wall time without the waiting for a rate limit, a free slot or a retry
    lm_calls: int | None = None  # requests, retries included
    tokens: int | None = None  # in and out, of all its calls
    tool_calls: int | None = None
    cost_usd: float | None = None  # only with a model whose price is known


class LimitReachedError(Exception):
    """The question has spent what it may. No agent and no tool may take it for a failure of its own."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit  # a field of QuestionLimits, "deadline_seconds", or what `SampleContext.reserve` names


@dataclass(frozen=True)
class Payment:
    """What one request has cost."""

    input_tokens: int = 0
    cached_input_tokens: int = 0  # of these
    output_tokens: int = 0
    cost_usd: float | None = None  # None: unknown, for want of a price or because it was cut off


Settle = Callable[[Payment | None], None]  # how a reserved request ended, told once; None: it was never sent


class Replies(Protocol):
    """Replies of a language model, kept by key, as text."""

    def get(self, key: str) -> str | None: ...

    def put(self, key: str, reply: str) -> None: ...


@dataclass(frozen=True)
class KeptResult:
    """What a tool returned, whole."""

    returned: str
    events: tuple[Mapping[str, Any], ...] = ()  # that its span had, such as a blocked page
    other_run_at: str | None = None  # when another run was given it, UTC, ISO 8601; None: it was this run


class ToolResults(Protocol):
    """What tools returned, by key; the first that is kept under a key stays."""

    def find(self, key: str) -> KeptResult | None: ...

    def keep(self, key: str, result: KeptResult) -> None: ...


@dataclass
class SampleContext:
    """Counters of one question, on the one event loop that runs it."""

    key: SampleKey
    limits: SampleLimits = field(default_factory=SampleLimits)
    call_log: Replies | None = None  # of this run: what an interrupted question has already been answered and has paid
    shared_cache: Replies | None = None  # across runs; only with cache.lm=shared
    spent: Callable[[Payment], None] = lambda payment: None  # told of each request that was answered or cut off
    reserve: Callable[[], Settle] = lambda: lambda payment: None  # before each request is sent: may the run pay for it?
    tool_log: ToolResults | None = None  # what tools marked `mas.tools.read_only` have returned before
    deadline: float = math.inf  # time.monotonic() at which its wall time is over
    belongings: dict[str, Any] = field(default_factory=dict)  # of its tools, by the tool's name; see `on_close`
    on_close: list[Callable[[], None]] = field(default_factory=list)  # what ends them with the question; in any thread
    lm_calls: int = 0
    tokens: int = 0
    tool_calls: int = 0
    cost_usd: float = 0.0
    waited_seconds: float = 0.0
    occurrences: dict[str, int] = field(default_factory=dict)  # of a request's digest: the same asked again is new
    limit_reached: str | None = field(default=None, init=False)  # the first that refused something, or ended the work
    refused: str | None = field(default=None, init=False)  # a sentence: the model server wants money or a valid key
    _waiting: int = 0  # calls that wait side by side
    _waiting_since: float = 0.0
    _timeout: asyncio.Timeout | None = None  # of the working time
    _ends: float = 0.0  # when that would be over without any waiting
    _closed: bool = field(default=False, init=False)
    _ending_with_it: set[asyncio.Timeout] = field(default_factory=set, init=False)

    def spend_lm_call(self) -> None:
        """Before each request.

        Raises:
            LimitReachedError: it would be one too many, tokens or money are used up, or the question is over.
        """
        self._check_open()
        self._check("lm_calls", self.lm_calls, "calls to language models")
        self._check("tokens", self.tokens, "tokens")
        self._check("cost_usd", self.cost_usd, "US dollars")
        self.lm_calls += 1

    def reserve_lm_call(self) -> Settle:
        """Before each request that is sent, and is not answered from what is kept.

        Raises:
            LimitReachedError: the question, or the run that it belongs to, may not ask any more.
        """
        self.spend_lm_call()
        try:
            return self.reserve()
        except LimitReachedError as error:
            raise self._reached(error.limit, str(error)) from error

    def charge(self, tokens: int, cost_usd: float | None) -> None:
        """After each reply: what it cost; None if the price is unknown."""
        self.tokens += tokens
        if cost_usd:
            self.cost_usd += cost_usd

    def spend_tool_call(self) -> None:
        """Before each call of a tool.

        Raises:
            LimitReachedError: it would be one too many, or the question is over.
        """
        self._check_open()
        self._check("tool_calls", self.tool_calls, "tool calls")
        self.tool_calls += 1

    @property
    def seconds_left(self) -> float:
        """Of its wall time; infinite if it has no deadline."""
        return self.deadline - time.monotonic()

    def _check(self, limit: str, used: float, what: str) -> None:
        allowed = getattr(self.limits, limit)
        if allowed is not None and used >= allowed:
            raise self._reached(limit, f"the question has used its {allowed:g} {what} (limits.{limit})")

    def _check_open(self) -> None:
        if self._closed or self.seconds_left <= 0:
            raise self._over()

    def _over(self) -> LimitReachedError:
        return self._reached("deadline_seconds", "the question is over: nothing more is done for it")

    def _reached(self, limit: str, message: str) -> LimitReachedError:
        """The error; noted here as well, since an agent may swallow it."""
        if not self._closed:
            self.limit_reached = self.limit_reached or limit
        return LimitReachedError(limit, message)

    def close(self) -> None:
        """Its record is complete: a thread of its agent that was left behind spends nothing more.

        To be called on the event loop of its calls.
        """
        self._closed = True
        while self.on_close:
            self.on_close.pop()()
        for timeout in self._ending_with_it:
            if not timeout.expired():
                timeout.reschedule(0)

    @asynccontextmanager
    async def until_over(self) -> AsyncIterator[None]:
        """For what is done on behalf of a thread: a thread is not cancelled with the question that started it.

        Raises:
            LimitReachedError: the question was, or came to be, closed or out of time.
        """
        self._check_open()
        try:
            async with asyncio.timeout(self.seconds_left) as timeout:
                self._ending_with_it.add(timeout)
                try:
                    yield
                finally:
                    self._ending_with_it.discard(timeout)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise self._over() from error

    @asynccontextmanager
    async def within_working_time(self) -> AsyncIterator[None]:
        """
        Raises:
            LimitReachedError: more work than `limits.working_seconds`; the time in `waiting` is not counted.
        """
        allowed = self.limits.working_seconds
        if allowed is None:
            yield
            return
        try:
            async with asyncio.timeout(allowed) as timeout:
                self._timeout, self._ends = timeout, time.monotonic() + allowed
                yield
        except Exception as error:
            if not timeout.expired():
                raise
            raise self._worked_too_long() from error
        else:
            if timeout.expired():  # and who was at work took no notice of it
                raise self._worked_too_long()
        finally:
            self._timeout = None  # a call that outlives the question may still come back from waiting

    def _worked_too_long(self) -> LimitReachedError:
        allowed = self.limits.working_seconds
        message = f"the question has worked for its {allowed:g} seconds (limits.working_seconds)"
        return self._reached("working_seconds", message)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The time inside is waiting, not work; counted once however many calls wait side by side."""
        if self._waiting == 0:
            self._waiting_since = time.monotonic()
            self._end_working_at(None)
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self.waited_seconds += time.monotonic() - self._waiting_since
                self._end_working_at(self._ends + self.waited_seconds)

    def _end_working_at(self, when: float | None) -> None:
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(when)


_question: ContextVar[SampleContext | None] = ContextVar("question", default=None)


@contextmanager
def use_context(question: SampleContext) -> Iterator[SampleContext]:
    """Carry the question in this context and in the tasks started from it."""
    token = _question.set(question)
    try:
        yield question
    finally:
        _question.reset(token)


def current_context() -> SampleContext | None:
    """The question of the run that the caller works for; None outside a run."""
    return _question.get()
