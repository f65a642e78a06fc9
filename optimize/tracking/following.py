"""The tuning run's side of its way into MLflow: the sender started, told when the run is over, waited for, reported.

Nothing of this is on the run's path, MLflow is not imported, and no failure of it is the run's: it costs one line.

    with TuningFollowing(config.base.tracking, folder, config.base.secrets()) as following:
        following.phase()          # at the first phase, or each: one process follows the folder by itself
        ...
        following.finish(print)    # the last file is written
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from eval.tracking.following import LOG, SHOWN_AFTER_SECONDS, handover, see_it
from eval.tracking.pipe import FINISHED
from eval.tracking.settings import NoTracking, Tracking
from eval.tracking.state import begin_anew, link_of, read_state
from optimize.tracking.sender import sync_command

_GRACE_SECONDS = 5.0  # beyond `tracking.wait_seconds`, for the last call


class TuningFollowing:
    """Left without `finish`, the run shows as KILLED in MLflow, or as FINISHED if it has its verdict."""

    def __init__(self, tracking: Tracking | NoTracking, folder: Path, secrets: Iterable[str]) -> None:
        self.tracking, self.folder = tracking, folder
        self._secrets = tuple(secrets)
        self._process: subprocess.Popen[str] | None = None
        self._problem: str | None = None

    def phase(self) -> None:
        """Have the sender at work, without waiting for it; nothing happens if it is, or with tracking=off."""
        tracking = self.tracking
        if self._process is not None or isinstance(tracking, NoTracking):
            return
        try:
            begin_anew(self.folder)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "optimize.tracking.sender", str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C in the terminal does not reach it
                env={**os.environ, **tracking.environment()},
            )
            self._problem = None
        except OSError as error:
            self._problem = f"the process that sends the run to MLflow could not be started ({error})"
            return
        self._tell(handover(tracking, {*self._secrets, *tracking.secrets()}).line())

    def finish(self, tell: Callable[[str], None]) -> None:
        """Say that the run is over, wait until it is in MLflow, and tell where, or what is missing there.

        At most for `tracking.wait_seconds`; Ctrl-C ends the waiting, not the sending.
        """
        if isinstance(self.tracking, NoTracking):
            return
        self.phase()
        ended = self._waited_for(self.tracking.wait_seconds, tell)
        if warning := self._warning(ended):
            tell(f"warning: {warning}")
        if line := see_it(self.tracking, link_of(self.folder)):
            tell(line)

    def _warning(self, ended: int | None) -> str | None:
        again = f"complete it with: {sync_command(self.folder)}"
        state = read_state(self.folder)
        if self._problem:
            return f"{self._problem}; {again}"
        if ended is None:
            return f"MLflow does not have the whole tuning run yet; {again}"
        if state is None or ended not in (0, 3) or (ended and not state.warning):
            why = f"by signal {-ended}" if ended < 0 else f"with code {ended}, see {LOG} in the run's folder"
            return f"the process that sends the run to MLflow ended {why}; {again}"
        return state.warning

    def _waited_for(self, wait_seconds: float, tell: Callable[[str], None]) -> int | None:
        """The sender's exit code; None: it has not ended."""
        if (process := self._process) is None:
            return None
        self._tell(f"{FINISHED}\n")
        self._hang_up()
        until = time.monotonic() + wait_seconds + _GRACE_SECONDS
        try:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(SHOWN_AFTER_SECONDS)
            tell(f"sending the rest to MLflow … (Ctrl-C: leave it to {sync_command(self.folder)})")
            return process.wait(max(0.0, until - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            return None

    def _tell(self, line: str) -> None:
        if self._process and self._process.stdin and not self._process.stdin.closed:
            with suppress(OSError):  # it is dead already; `finish` will say so
                self._process.stdin.write(line)
                self._process.stdin.flush()

    def _hang_up(self) -> None:
        if self._process and self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hang_up()
        if self._process and self._process.poll() is None:  # it ends by itself; somebody must hear of it
            threading.Thread(target=self._process.wait, daemon=True).start()
