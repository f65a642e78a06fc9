"""The project's commands in processes of their own, which tests watch, signal and kill.

with started(folder, *options) as running:       # eval/run.py, whose run is in that folder
    running.wait_until(lambda: len(server.requests()) >= 7)
    finished = running.end(signal.SIGINT)        # finished.code, finished.err, finished.summary
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.cli.paths import PROJECT_ROOT
from tests.command import Finished, without_notes, without_secrets
from tests.patience import PATIENCE_SECONDS

SCRIPT = PROJECT_ROOT / "eval" / "run.py"
PRIORITY = PROJECT_ROOT / "tests" / "priority"  # on the path of each Python that tests start


@dataclass(frozen=True)
class Running:
    """A command at work; `printed` is the folder of what it prints."""

    process: subprocess.Popen[str]
    folder: Path  # of the run
    printed: Path

    @property
    def out(self) -> str:
        return (self.printed / "out").read_text("utf-8")

    @property
    def err(self) -> str:
        return without_notes((self.printed / "err").read_text("utf-8"))

    def address(self) -> str:
        """Return the address of a server, which it prints first of all."""
        assert self.wait_until(lambda: "\n" in self.out), self.err
        (found, *_) = re.findall(r"http://\S+", self.out)
        return str(found)

    def wait_until(self, condition: Callable[[], object]) -> bool:
        """Return False if the command ends before the condition holds."""
        over = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < over, self.out + self.err
            time.sleep(0.005)
        return True

    def end(self, number: int | None = None) -> Finished:
        """Wait for its end, once it has got that signal."""
        if number is not None:
            self.process.send_signal(number)
        self.process.wait(PATIENCE_SECONDS)
        return Finished(self.process.returncode, self.out, self.err, self.folder)


@contextmanager
def started(
    folder: Path,
    *arguments: str | Path,
    script: Path | str = SCRIPT,
    environment: Mapping[str, str] | None = None,
    wrapper: Sequence[str] = (),
    **popen: Any,
) -> Iterator[Running]:
    """Start a command without keys; nothing of it is left at the end of the block.

    Args:
        folder: of the run that the command makes.
        script: of the project; empty: the arguments name the program's text.
        environment: in addition to that of the tests.
        wrapper: put before the command.
        popen: for `subprocess.Popen`.
    """
    where = [f"run.dir={folder}"] if script == SCRIPT and "run.resume=" not in "".join(map(str, arguments)) else []
    command = [*wrapper, sys.executable, *([PROJECT_ROOT / script] if script else []), *arguments, *where]
    own = {"PYTHONPATH": f"{PROJECT_ROOT}{os.pathsep}{PRIORITY}", **(environment or {})}
    until_it_ends, held = os.pipe()  # by the command, which may be the wrapper's child: nobody else waits for it
    with tempfile.TemporaryDirectory() as printed, os.fdopen(until_it_ends, "rb") as end:
        with Path(printed, "out").open("w") as out, Path(printed, "err").open("w") as err:
            process = subprocess.Popen(
                [*map(str, command)],
                env={**without_secrets(os.environ), **own},
                text=True,
                start_new_session=True,
                pass_fds=[held],
                **{"stdout": out, "stderr": err, "stdin": subprocess.DEVNULL, **popen},
            )
        os.close(held)
        try:
            yield Running(process, folder, Path(printed))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            end.read()  # a killed process that is writing keeps the run's lock until the disk has answered


def finish(folder: Path, *arguments: str | Path, **how: Any) -> Finished:
    """Run a command to its end: see `started`."""
    with started(folder, *arguments, **how) as running:
        return running.end()
