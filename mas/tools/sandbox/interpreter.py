"""One question's Python: a session that is opened when first asked for, and again after it was lost.

interpreter = Interpreter(SandboxSettings(), {"sales.xlsx": Path("/data/sales.xlsx")})
cell = await interpreter.run("6 * 7")       # Cell(reply=Reply(value="42"), fresh_after_loss=False)
interpreter.close()
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mas.tools.sandbox.choosing import choose_isolation
from mas.tools.sandbox.session import Reply, Session, SessionLostError
from mas.tools.sandbox.settings import SandboxSettings


@dataclass(frozen=True)
class Cell:
    reply: Reply
    fresh_after_loss: bool  # none of the variables of earlier calls are there


class TimeSpentError(Exception):
    """The question has used the seconds of Python that it may."""


class Interpreter:
    def __init__(self, settings: SandboxSettings, files: Mapping[str, Path]) -> None:
        self._settings, self._files = settings, files
        self._session: Session | None = None
        self._lost = self._closed = False
        self._spent_seconds = 0.0
        self._one_at_a_time = asyncio.Lock()

    async def run(self, code: str) -> Cell:
        """
        Raises:
            SessionLostError: the code was ended, with its variables; the message says why.
            NotAvailableError: nothing here can shut the code in.
            TimeSpentError: nothing more is run for this question.
        """
        async with self._one_at_a_time:
            allowed = min(self._settings.seconds_per_call, self._settings.seconds_per_question - self._spent_seconds)
            if allowed <= 0:
                raise TimeSpentError
            if self._closed:
                raise SessionLostError("the question is over")
            session = await self._opened()
            fresh_after_loss, self._lost = self._lost, True  # until it is known that the session has survived
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

    async def _opened(self) -> Session:
        if self._session is None:
            choice = await asyncio.to_thread(choose_isolation, self._settings.kind)
            session = await choice.isolation.open(self._files, self._settings)
            if self._closed:  # while it was starting
                session.close()
                raise SessionLostError("the question is over")
            self._session = session
        return self._session

    def close(self) -> None:
        """With the question; in any thread."""
        self._closed = True
        if self._session is not None:
            self._session.close()
