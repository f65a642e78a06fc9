"""Limits, budget, deadline and replay log of the sample that is being run.

There is one SampleContext per (sample, epoch, attempt), in a context variable. The model client and the tools read it
with `current_context()`; outside a run there is none, and nothing is limited.
"""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Protocol

_START_TIME = "start time"  # key in the call log
_UNITS = {"lm_calls": "calls to language models", "tool_calls": "tool calls", "cost_usd": "US dollars"}


@dataclass(frozen=True)
class SampleKey:
    """Identity of an attempt at a sample; numbers count from 1. Epoch 0: a tuning run's reflection."""

    sample_id: str
    epoch: int = 1
    attempt: int = 1
    variant: str = ""  # SHA-256 of the prompts, if a tuning run's sets share no calls


@dataclass
class SampleLimits:
    """Limits of one sample; null: no limit. Its wall time is `run.deadline_seconds`."""

    lm_calls: int | None = None  # requests, retries included
    tokens: int | None = None  # in and out, of all its calls
    tool_calls: int | None = None
    cost_usd: float | None = None  # only with a model whose price is known


@dataclass
class SampleUsage:
    """Requests, tokens, money and waiting time of one sample so far."""

    lm_calls: int = 0
    tokens: int = 0
    tool_calls: int = 0
    cost_usd: float = 0.0  # of the calls whose price is known
    waited_seconds: float = 0.0  # for a rate limit, a free slot or a retry


class LimitReachedError(Exception):
    """A limit of the sample or the run was reached. Agents and tools must re-raise it."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit  # a field of SampleLimits, "deadline_seconds", or a RunBudget's own name


@dataclass(frozen=True)
class Payment:
    """Cost of one request."""

    input_tokens: int = 0
    cached_input_tokens: int = 0  # part of the input tokens
    output_tokens: int = 0
    cost_usd: float | None = None  # None: unknown, since there is no price or the reply was cut off
    refused: bool = False  # the server refused the request and charges nothing for it


class RunBudget(Protocol):
    """Account of the run's requests. Samples may use it from any thread."""

    def reserve(self) -> None:
        """Reserve a request before it is sent; LimitReachedError: the run's budget is used up."""

    def settle(self, payment: Payment | None) -> None:
        """Record the cost of a reserved request, exactly once; None if it was never sent."""


class _Unlimited(RunBudget):
    """Budget that allows every request and records none."""


class ReplyLog(Protocol):
    """Texts by key: replies of a language model, results of tools."""

    def get(self, key: str) -> str | None: ...

    def put(self, key: str, reply: str) -> None: ...


@dataclass
class SampleContext:
    """Usage and limits of one sample. Not thread-safe: used on the event loop that runs the sample."""

    key: SampleKey
    limits: SampleLimits = field(default_factory=SampleLimits)
    budget: RunBudget = field(default_factory=_Unlimited)
    call_log: ReplyLog | None = None  # replies that earlier sessions have paid for
    tool_log: ReplyLog | None = None  # results of tools marked by `mas.tools.read_only`, as JSON
    deadline: float = math.inf  # time.monotonic(), as the event loop's clock
    tool_state: dict[str, Any] = field(default_factory=dict)  # by tool name
    on_close: list[Callable[[], None]] = field(default_factory=list)  # release `tool_state`
    usage: SampleUsage = field(default_factory=SampleUsage)
    request_counts: dict[str, int] = field(default_factory=dict)  # by digest of the request
    ask_budget: Callable[[], Awaitable[None]] | None = None  # reserves a request in another process
    limit_reached: str | None = field(default=None, init=False)  # the first that was reached
    server_refusal: str | None = field(default=None, init=False)  # no money or no valid key
    _started_at: datetime | None = field(default=None, init=False)
    _waiting_calls: int = 0  # concurrent
    _waiting_since: float = 0.0
    _is_closed: bool = field(default=False, init=False)
    _open_timeouts: set[asyncio.Timeout] = field(default_factory=set, init=False)

    def count_lm_call(self) -> None:
        """Count a request that is sent or replayed; LimitReachedError: a limit, or the sample's end."""
        self._check("lm_calls", "tokens", "cost_usd")
        self.usage.lm_calls += 1

    async def reserve_lm_call(self) -> None:
        """Count a request to be sent, and reserve it in the run's budget; raises as `count_lm_call`."""
        try:
            if self.ask_budget is not None:
                await self.ask_budget()
            self.count_lm_call()
            self.budget.reserve()
        except LimitReachedError as error:
            raise self._note_limit(error.limit, str(error)) from error

    def record_reply(self, tokens: int, cost_usd: float | None) -> None:
        """Add a reply's tokens and cost; None if its price is unknown."""
        self.usage.tokens += tokens
        self.usage.cost_usd += cost_usd or 0.0

    def count_tool_call(self) -> None:
        """Count one tool call before it is made; raises as `count_lm_call`."""
        self._check("tool_calls")
        self.usage.tool_calls += 1

    def read_start_time(self) -> datetime:
        """Return the time at which the sample was begun, in UTC, as the first reading had it.

        Prompts have it: with another time no reply of an interrupted sample would be found again.
        """
        if self._started_at is None:
            kept = self.call_log.get(_START_TIME) if self.call_log is not None else None
            self._started_at = datetime.fromisoformat(kept) if kept else datetime.now(UTC)
            if self.call_log is not None and not kept:
                self.call_log.put(_START_TIME, self._started_at.isoformat())
        return self._started_at

    @property
    def seconds_left(self) -> float:
        """Wall time until the deadline; infinite without one."""
        return self.deadline - time.monotonic()

    def close(self) -> None:
        """Release the tools' state and end all work for this sample, after its record; on its loop."""
        self._is_closed = True
        while self.on_close:
            self.on_close.pop()()
        for timeout in self._open_timeouts:
            if not timeout.expired():
                timeout.reschedule(0)

    @contextmanager
    def end_with(self, timeout: asyncio.Timeout) -> Iterator[None]:
        """Let a timeout around the block, which is entered already, end with the sample."""
        self._open_timeouts.add(timeout)
        try:
            yield
        finally:
            self._open_timeouts.discard(timeout)

    @asynccontextmanager
    async def within_deadline(self) -> AsyncIterator[None]:
        """End the block with LimitReachedError at the deadline or at `close`."""
        self._check()
        try:
            async with asyncio.timeout(self.seconds_left) as timeout:
                with self.end_with(timeout):
                    yield
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise self._note_end() from error

    @contextmanager
    def count_waiting(self) -> Iterator[None]:
        """Count the block as waiting; concurrent blocks count once."""
        if self._waiting_calls == 0:
            self._waiting_since = time.monotonic()
        self._waiting_calls += 1
        try:
            yield
        finally:
            self._waiting_calls -= 1
            if self._waiting_calls == 0:
                self.usage.waited_seconds += time.monotonic() - self._waiting_since

    def _check(self, *limits: str) -> None:
        """Raise the error for a sample that has ended, or has used up one of the limits."""
        if self._is_closed or self.seconds_left <= 0:
            raise self._note_end()
        for limit in limits:
            allowed = getattr(self.limits, limit)
            if allowed is not None and getattr(self.usage, limit) >= allowed:
                used = f"{allowed:g} {_UNITS.get(limit, limit)}"
                raise self._note_limit(limit, f"the question has used its {used} (limits.{limit})")

    def _note_end(self) -> LimitReachedError:
        return self._note_limit("deadline_seconds", "the question is over: nothing more is done for it")

    def _note_limit(self, limit: str, message: str) -> LimitReachedError:
        """Return the error to raise, and note the limit: an agent may swallow the error."""
        if not self._is_closed:
            self.limit_reached = self.limit_reached or limit
        return LimitReachedError(limit, message)


_context: ContextVar[SampleContext | None] = ContextVar("sample_context", default=None)


@contextmanager
def use_context(context: SampleContext) -> Iterator[SampleContext]:
    """Set the context for the block, and for the tasks and threads started in it."""
    _carry_contexts()
    token = _context.set(context)
    try:
        yield context
    finally:
        _context.reset(token)


def current_context() -> SampleContext | None:
    """Return the context of the sample that the caller works for; None outside a run."""
    return _context.get()


@cache
def _carry_contexts() -> None:
    """Give threads and the work of pools the context of the code that started them within a sample.

    Python gives a new thread an empty context, and the work of a pool that of its thread. A model call there
    (`dspy.Parallel`, `Module.batch`, a program's own pool) would have no limit and be counted nowhere.
    """
    submit, start = ThreadPoolExecutor.submit, threading.Thread.start

    def submit_in_context(pool: ThreadPoolExecutor, /, *call: Any, **kwargs: Any) -> Future[Any]:
        runs_in = () if current_context() is None else (copy_context().run,)
        return submit(pool, *runs_in, *call, **kwargs)

    def start_in_context(thread: threading.Thread) -> None:
        # A pool's threads outlive the work that started them, and run that of others.
        module = getattr(getattr(thread, "_target", None), "__module__", None)
        if current_context() is not None and module != "concurrent.futures.thread":
            context, run = copy_context(), thread.run
            thread.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(thread)

    ThreadPoolExecutor.submit = submit_in_context  # type: ignore[method-assign,assignment]
    threading.Thread.start = start_in_context  # type: ignore[method-assign,assignment]
