"""Rate limiter of a worker: asks that of the run's process, so that all workers together keep one pace.

shared = SharedLimiters(channel.send)
config.model.use_rate_limiters(shared.for_model(""))
shared.permit(Permitted(1))               # an answer has come
"""

import asyncio
import math
from collections.abc import Callable
from itertools import count
from typing import Self

from eval.execution.executors.channel import Ask, Ended, Permitted
from mas.llm.profiles.profile import Server
from mas.llm.rate_limiter import BackoffTooLongError, Limiter, Permit

Send = Callable[[Ask | Ended], None]


class SharedLimiters:
    """Requests of one worker that wait for their turn."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def for_model(self, model: str) -> Callable[[Server], Limiter]:
        """Return the limiters of a model by server; `model`: as in `Ask`."""
        return lambda server: _SharedLimiter(self, model, server)

    def permit(self, answer: Permitted) -> None:
        """Let the request continue that was answered; none if it no longer waits."""
        waiting = self._waiting.pop(answer.number, None)
        if waiting is None or waiting.done():
            return
        if answer.pause_seconds is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(BackoffTooLongError(answer.pause_seconds))

    async def wait_for_turn(self, model: str, server: Server, tokens: int, patience_seconds: float) -> int:
        """Return the number of the request when it may be sent.

        Raises:
            BackoffTooLongError: the server has asked for a longer pause.
        """
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send(Ask(number, model, server, tokens, patience_seconds))
        try:
            await waiting
        except asyncio.CancelledError:
            self._waiting.pop(number, None)
            self._send(Ended(number))
            raise
        return number

    def end(self, ended: Ended) -> None:
        """Report a request that had its turn."""
        self._send(ended)


class _SharedLimiter:
    """A Limiter."""

    def __init__(self, shared: SharedLimiters, model: str, server: Server) -> None:
        self._shared, self._model, self._server = shared, model, server
        self.answered = 0  # requests of this worker

    async def acquire(self, tokens: int, get_patience: Callable[[], float] = lambda: math.inf) -> Permit:
        return _SharedPermit(
            self, self._shared, await self._shared.wait_for_turn(self._model, self._server, tokens, get_patience())
        )


class _SharedPermit:
    """A Permit."""

    def __init__(self, limiter: _SharedLimiter, shared: SharedLimiters, number: int) -> None:
        self._limiter, self._shared, self._number = limiter, shared, number
        self._is_open = True

    def record_success(self) -> None:
        self._end("success")
        self._limiter.answered += 1

    def record_rate_limit(self, retry_after_seconds: float | None) -> None:
        self._end("rate_limit", retry_after_seconds)

    def record_server_error(self) -> None:
        self._end("server_error")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_open:
            self._end(None)

    def _end(self, outcome: str | None, retry_after_seconds: float | None = None) -> None:
        self._is_open = False
        self._shared.end(Ended(self._number, outcome, retry_after_seconds))
