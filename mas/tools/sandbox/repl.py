"""Python interpreter of a question, in the strongest isolation that works on this machine.

interpreter = Interpreter(SandboxSettings(), {"sales.xlsx": Path("/data/sales.xlsx")})
await interpreter.run("6 * 7")       # Reply(value="42")
interpreter.close()
"""

import asyncio
import functools
import threading
from dataclasses import dataclass

from mas.tools.sandbox.deno import Deno
from mas.tools.sandbox.jail import Jail
from mas.tools.sandbox.session import OVER, Files, NotAvailableError, Reply, Session, SessionLostError
from mas.tools.settings import AUTO, BUBBLEWRAP, DENO, REFUSE, SandboxSettings

Isolation = Jail | Deno
_CANDIDATES: dict[str, tuple[type[Isolation], ...]] = {
    AUTO: (Jail, Deno),
    BUBBLEWRAP: (Jail,),
    DENO: (Deno,),
    REFUSE: (),
}
_choosing = threading.Lock()


@dataclass(frozen=True)
class Choice:
    """Isolation that works, and the reasons against the better ones."""

    isolation: Isolation | None  # None: no code is run
    probe_result: str = ""
    refused: tuple[str, ...] = ()


def try_isolations(kind: str) -> Choice:
    """Return the first isolation of this kind that works; if none does, none, and never a weaker one."""
    refused: list[str] = []
    for candidate in _CANDIDATES[kind]:
        isolation = candidate()
        try:
            return Choice(isolation, isolation.probe(), tuple(refused))
        except NotAvailableError as error:
            refused.append(str(error))
    return Choice(None, refused=tuple(refused))


@functools.cache
def _choose_once(kind: str) -> Choice:
    return try_isolations(kind)


def choose_isolation(kind: str) -> Choice:
    """Return the choice for this kind, made once per process; it takes a fraction of a second with bubblewrap."""
    with _choosing:  # the cache alone lets each of many first callers try
        return _choose_once(kind)


def describe_missing_isolation(settings: SandboxSettings) -> str | None:
    """Return a sentence for the user if every call of python_repl_tool will fail on this machine; None if it works."""
    if settings.kind == REFUSE:  # as the user asked for
        return None
    choice = choose_isolation(settings.kind)
    return None if choice.isolation else f"the tool python_repl_tool will refuse every call: {' '.join(choice.refused)}"


class Interpreter:
    """Interpreter that keeps variables from call to call; its first call opens a session, and the next after a loss."""

    def __init__(self, settings: SandboxSettings, files: Files) -> None:
        self._settings, self._files = settings, files
        self._session: Session | None = None
        self._is_closed = False
        self._one_at_a_time = asyncio.Lock()

    async def run(self, code: str) -> Reply:
        """Run code and return what it prints and its value.

        Raises:
            SessionLostError: the code was stopped and its variables are lost; the message says why.
            NotAvailableError: no isolation is available.
        """
        async with self._one_at_a_time:
            session = await self._open_session()
            try:
                return await session.run(code, self._settings.seconds_per_call)
            except BaseException:
                self._session = None
                raise

    async def _open_session(self) -> Session:
        if self._session is None and not self._is_closed:
            choice = await asyncio.to_thread(choose_isolation, self._settings.kind)
            if choice.isolation is None:
                reasons = choice.refused or ("tools.sandbox.kind=refuse: no Python code is run.",)
                raise NotAvailableError(" ".join(["no isolation for Python code works on this machine:", *reasons]))
            self._session = await choice.isolation.open(self._files, self._settings)
        if self._session is None or self._is_closed:  # perhaps while it was starting
            self.close()
            raise SessionLostError(OVER)
        return self._session

    def close(self) -> None:
        """End the session when the question ends; from any thread."""
        self._is_closed = True
        if self._session is not None:
            self._session.close()
