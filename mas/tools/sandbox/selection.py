"""Selection of the isolation: the strongest that works on this machine, never weaker than requested."""

import functools
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mas.runtime.terminal import print_line
from mas.tools.sandbox.bubblewrap import ENVIRONMENT, Bubblewrap, build_worker_settings
from mas.tools.sandbox.deno import Deno
from mas.tools.sandbox.process import DIES_WITH_PARENT, Launch, ProcessSession, die_with_parent
from mas.tools.sandbox.session import NotAvailableError
from mas.tools.settings import AUTO, BUBBLEWRAP, DENO, REFUSE, UNSAFE_LOCAL, SandboxSettings

WARNING = (
    "tools.sandbox.kind=unsafe_local: Python code that a model writes runs as you, with your files and your network; "
    "nothing shuts it in."
)


class Isolation(Protocol):
    """Way to run code apart from this machine."""

    name: str  # as in `tools.sandbox.kind`

    def probe(self) -> str:
        """Run a one-line program and return a description of the isolation.

        Raises:
            NotAvailableError: it did not run.
        """

    async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> ProcessSession:
        """Open a session that can read `files` by their names.

        Raises:
            NotAvailableError: it could not be started.
        """


class UnsafeLocal:
    """No isolation: a child process with limits, which can read the home folder, connect and start programs.

    For trusted code on a machine without bubblewrap and Deno; only used when it is requested by name.
    """

    name = UNSAFE_LOCAL

    def probe(self) -> str:
        return "a plain process without isolation, as asked for"

    async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> ProcessSession:
        folder = Path(tempfile.mkdtemp(prefix="mas-python-"))
        for name, path in files.items():
            shutil.copyfile(path, folder / name)
        packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
        worker = str(Path(__file__).parent / "worker.py")
        own = {"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.defpath, "LD_LIBRARY_PATH": ""}
        launch = Launch(
            command=[
                *die_with_parent(),
                *(sys.executable, "-s", "-S", "-B", "-P", worker),
                json.dumps(build_worker_settings(settings, packages)),
            ],
            env={**ENVIRONMENT, **own},
            max_message_bytes=20 * settings.max_output_chars + 100_000,
            max_resident_bytes=settings.memory_mb << 20,
            cwd=str(folder),
            pauses=DIES_WITH_PARENT,
            on_end=[lambda: shutil.rmtree(folder, ignore_errors=True)],
        )
        return await ProcessSession.open(launch)


class Refusal:
    """Isolation of last resort: it runs no code, and its message says why and what to do."""

    name = REFUSE

    def __init__(self, message: str) -> None:
        self.message = message

    def probe(self) -> str:
        raise NotAvailableError(self.message)

    async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> ProcessSession:
        raise NotAvailableError(self.message)


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
    """Isolation that works, and why better ones do not."""

    isolation: Isolation
    probe_result: str  # empty for a refusal
    refused: tuple[str, ...] = ()  # reasons against the isolations before it


def choose_isolation(kind: str) -> Choice:
    """Return the choice for this kind, made once per process; it takes a fraction of a second with bubblewrap."""
    with _choosing:
        return _chosen(kind)


def try_isolations(kind: str) -> Choice:
    """Return the first isolation of this kind that works; if none does, a refusal, never a weaker isolation."""
    refused: list[str] = []
    for candidate in _CANDIDATES[kind]:
        isolation = candidate()
        try:
            return Choice(isolation, isolation.probe(), tuple(refused))
        except NotAvailableError as error:
            refused.append(str(error))
    why = " ".join(["no isolation for Python code works on this machine:", *refused])
    return Choice(Refusal(why), "", tuple(refused))


def describe_missing_isolation(settings: SandboxSettings) -> str | None:
    """Return a sentence for the user if every call of the tool python will fail on this machine; None if it works."""
    if settings.kind in (REFUSE, UNSAFE_LOCAL):  # as the user asked for
        return None
    choice = choose_isolation(settings.kind)
    return None if choice.probe_result else f"the tool python will refuse every call: {' '.join(choice.refused)}"


@functools.cache
def _chosen(kind: str) -> Choice:
    if kind == UNSAFE_LOCAL:
        print_line(f"warning: {WARNING}", error=True)
    return try_isolations(kind)
