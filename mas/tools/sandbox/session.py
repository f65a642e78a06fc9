"""What every isolation offers: sessions in which one cell after another is run.

session = await isolation.open(files, settings)
reply = await session.run("6 * 7", seconds=10)       # Reply(value="42")
session.close()
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from mas.runtime.text import replace_surrogates
from mas.tools.sandbox.settings import SandboxSettings

DISTURBED = "the code has disturbed the sandbox's own messages"


class SessionLostError(Exception):
    """The session is over, and its variables with it; the message says why: "the code ran longer than 30 s"."""


class NotAvailableError(Exception):
    """This machine does not offer the isolation; one sentence with the cause and how to get it."""


@dataclass(frozen=True)
class Reply:
    """What became of one cell. Written by the code's own process: every word of it may be made up."""

    output: str = ""  # printed
    output_cut: int = 0  # characters that are missing at its end
    value: str = ""  # of the last expression
    value_cut: int = 0  # characters that are missing in its middle
    error: str = ""  # a traceback
    error_cut: int = 0  # likewise

    @classmethod
    def parse(cls, message: Mapping[str, Any]) -> "Reply":
        """
        Raises:
            SessionLostError: the message is none that the sandbox's own program sends.
        """
        values = {field.name: message.get(field.name) for field in fields(cls)}
        for name, value in values.items():
            if type(value) is not (int if name.endswith("_cut") else str):
                raise SessionLostError(DISTURBED)
        return cls(**replace_surrogates(values))


class Session(Protocol):
    """One question's variables."""

    async def run(self, code: str, seconds: float) -> Reply:
        """
        Raises:
            SessionLostError: time, memory or the code itself has ended the session, which is closed then.
        """

    def close(self) -> None:
        """End whatever runs; twice does no harm. Quick, never raises, from any thread."""


class Isolation(Protocol):
    name: str  # as in `tools.sandbox.kind`

    def probe(self) -> str:
        """Run a one-line program, and say in a few words what was tried.

        Raises:
            NotAvailableError: it did not run.
        """

    async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> Session:
        """A fresh session that can read `files` by their names.

        Raises:
            NotAvailableError: it could not be started.
        """
