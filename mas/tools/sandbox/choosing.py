"""The isolation of last resort: no code is run, and the agent is told so."""

import functools
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mas.tools.sandbox.bubblewrap import Bubblewrap
from mas.tools.sandbox.deno import Deno
from mas.tools.sandbox.local import WARNING, UnsafeLocal
from mas.tools.sandbox.session import Isolation, NotAvailableError, Session
from mas.tools.sandbox.settings import AUTO, BUBBLEWRAP, DENO, REFUSE, UNSAFE_LOCAL, SandboxSettings


class Refusal:
    name = REFUSE

    def __init__(self, why: str) -> None:
        """`why`: one or more sentences, with what would mend it."""
        self.why = why

    def probe(self) -> str:
        raise NotAvailableError(self.why)

    async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> Session:
        raise NotAvailableError(self.why)


_CANDIDATES: dict[str, tuple[Callable[[], Isolation], ...]] = {
    AUTO: (Bubblewrap, Deno),
    BUBBLEWRAP: (Bubblewrap,),
    DENO: (Deno,),
    REFUSE: (lambda: Refusal("tools.sandbox.kind=refuse: no Python code is run."),),
    UNSAFE_LOCAL: (UnsafeLocal,),
}
_choosing = threading.Lock()


@dataclass(frozen=True)
class Choice:
    isolation: Isolation
    said: str  # what its trial showed; empty if it is a refusal
    refused: tuple[str, ...] = ()  # why not those that come before it


def choose_isolation(kind: str) -> Choice:
    """`try_isolations`, once a process; blocks for as long as that takes, a fraction of a second with bubblewrap."""
    with _choosing:
        return _chosen(kind)


def try_isolations(kind: str) -> Choice:
    """The first of this kind that works. Never an isolation weaker than asked for: if none works, a refusal."""
    refused: list[str] = []
    for candidate in _CANDIDATES[kind]:
        isolation = candidate()
        try:
            return Choice(isolation, isolation.probe(), tuple(refused))
        except NotAvailableError as error:
            refused.append(str(error))
    why = " ".join(["Python code cannot be shut in on this machine, so none is run:", *refused])
    return Choice(Refusal(why), "", tuple(refused))


@functools.cache
def _chosen(kind: str) -> Choice:
    if kind == UNSAFE_LOCAL:
        sys.stderr.write(f"warning: {WARNING}\n")
    return try_isolations(kind)
