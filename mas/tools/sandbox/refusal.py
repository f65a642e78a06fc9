"""The isolation of last resort: no code is run, and the agent is told so."""

from collections.abc import Mapping
from pathlib import Path

from mas.tools.sandbox.session import NotAvailableError, Session
from mas.tools.sandbox.settings import REFUSE, SandboxSettings


class Refusal:
    name = REFUSE

    def __init__(self, why: str) -> None:
        """`why`: one or more sentences, with what would mend it."""
        self.why = why

    def probe(self) -> str:
        raise NotAvailableError(self.why)

    async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> Session:
        raise NotAvailableError(self.why)
