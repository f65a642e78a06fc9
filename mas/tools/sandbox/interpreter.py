"""Python interpreter of a question: a session that its first cell opens, and the next cell after a loss reopens.

interpreter = Interpreter(SandboxSettings(), {"sales.xlsx": Path("/data/sales.xlsx")})
cell = await interpreter.run("6 * 7")       # Cell(reply=Reply(value="42"), fresh_after_loss=False)
interpreter.close()
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mas.tools.sandbox.process import ProcessSession
from mas.tools.sandbox.selection import choose_isolation
from mas.tools.sandbox.session import Reply, SessionLostError
from mas.tools.settings import SandboxSettings


@dataclass(frozen=True)
class Cell:
    """Result of one call."""

    reply: Reply
    fresh_after_loss: bool  # the variables of earlier calls are lost


class TimeSpentError(Exception):
    """The question has used all its seconds of Python."""


class Interpreter:
    """Interpreter that keeps variables from call to call."""

    def __init__(self, settings: SandboxSettings, files: Mapping[str, Path]) -> None:
        self._settings, self._files = settings, files
        self._session: ProcessSession | None = None
        self._lost = self._closed = False
        self._spent_seconds = 0.0
        self._one_at_a_time = asyncio.Lock()

    async def run(self, code: str) -> Cell:
        """Run code and return what it prints and its value.

        Raises:
            SessionLostError: the code was stopped and its variables are lost; the message says why.
            NotAvailableError: no isolation is available.
            TimeSpentError: no more code is run for this question.
        """
        async with self._one_at_a_time:
            allowed = min(self._settings.seconds_per_call, self._settings.seconds_per_question - self._spent_seconds)
            if allowed <= 0:
                raise TimeSpentError
            if self._closed:
                raise SessionLostError("the question is over")
            session = await self._open_session()
            fresh_after_loss, self._lost = self._lost, True  # until the session has survived the call
            begun = time.monotonic()
            try:
                reply = await session.run(code, allowed)
            except BaseException:
                self._session = None
                raise
            finally:
                self._spent_seconds += time.monotonic() - begun
            self._lost = False
            return Cell(reply, fresh_after_loss)

    async def _open_session(self) -> ProcessSession:
        if self._session is None:
            choice = await asyncio.to_thread(choose_isolation, self._settings.kind)
            session = await choice.isolation.open(self._files, self._settings)
            if self._closed:  # while it was starting
                session.close()
                raise SessionLostError("the question is over")
            self._session = session
        return self._session

    def close(self) -> None:
        """End the session when the question ends; from any thread."""
        self._closed = True
        if self._session is not None:
            self._session.close()
