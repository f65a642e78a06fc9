"""The run's side of its way into MLflow: the exporter started, told when the run is over, waited for, and reported.

Nothing of this is on a question's path, MLflow is not imported, and no failure of it is the run's.

    with Following(config.tracking, folder, config.secrets()) as following:
        ...                                                # the questions
        outcome = following.finish(print)                  # its files are written
    outcome.warning, outcome.view_line
    # (None, "see it: make ui, then http://127.0.0.1:5000/#/experiments/1/runs/0f3a…")
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from eval.cli.paths import OUTPUTS
from eval.config.tracking import LocalTracking, NoTracking, Tracking
from eval.mlflow_export.exporter_process import sync_command
from eval.mlflow_export.pipe import FINISHED, ExportRequest
from eval.runs.mlflow_state import read_link, read_state, reset_state

SHOWN_AFTER_SECONDS = 2.0
_GRACE_SECONDS = 5.0  # beyond the exporter's own time, for its last call
LOG = "logs/mlflow.log"


class ExportKind(NamedTuple):
    """What sends a run: `python -m module FOLDER`, which is told on its standard input where to and what is secret."""

    module: str
    again: Callable[[Path], str]  # the command that completes in MLflow what it left undone


EXPORTER = ExportKind("eval.mlflow_export.exporter_process", sync_command)


class ExportOutcome(NamedTuple):
    """Where the run is in MLflow, and a sentence if something is missing there."""

    link: dict[str, str] | None = None  # uri, experiment_id, run_id
    warning: str | None = None
    view_line: str | None = None  # says how to look at the run


class ExporterLauncher:
    """From the first question to the last line. Left without `finish`, the run shows as KILLED in MLflow."""

    def __init__(
        self, tracking: Tracking | NoTracking, folder: Path, secrets: Iterable[str], sender: ExportKind = EXPORTER
    ) -> None:
        """Start the sender; with tracking=off there is none."""
        self.tracking, self.folder, self.sender = tracking, folder, sender
        self._process: subprocess.Popen[str] | None = None
        self._problem: str | None = None
        try:
            reset_state(folder)
            if not isinstance(tracking, NoTracking):
                self._start(tracking, {*secrets, *tracking.secrets()})
        except OSError as error:
            self._problem = f"the process that sends the run to MLflow could not be started ({error})"

    def _start(self, tracking: Tracking, secrets: Iterable[str]) -> None:
        # In a session of its own, Ctrl-C in the terminal does not reach it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", self.sender.module, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env={**os.environ, **tracking.environment()},
        )
        self._tell(handover(tracking, secrets).line())

    def _tell(self, line: str) -> None:
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return
        with suppress(OSError):  # it is dead already; `finish` will say so
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def finish(self, tell: Callable[[str], None]) -> ExportOutcome:
        """Say that the run is over, and wait until it is in MLflow; Ctrl-C ends the waiting, not the sending."""
        if isinstance(self.tracking, NoTracking):
            return ExportOutcome()
        ended = self._waited_for(self.tracking.wait_seconds, tell)
        state, link, again = read_state(self.folder), read_link(self.folder), self.sender.again(self.folder)
        if self._problem:
            warning: str | None = f"{self._problem}; complete it with: {again}"
        elif ended is None:
            warning = f"MLflow does not have the whole run yet; complete it with: {again}"
        elif state is None or ended not in (0, 3) or (ended and not state.warning):
            why = f"by signal {-ended}" if ended < 0 else f"with code {ended}, see {self.folder / LOG}"
            warning = f"the process that sends the run to MLflow ended {why}; complete it with: {again}"
        else:
            warning = state.warning
        return ExportOutcome(link, warning, format_view_line(self.tracking, link))

    def _waited_for(self, wait_seconds: float, tell: Callable[[str], None]) -> int | None:
        """The exporter's exit code; None: it has not ended."""
        process = self._process
        if process is None:
            return None
        self._tell(f"{FINISHED}\n")
        self._hang_up()
        until = time.monotonic() + wait_seconds + _GRACE_SECONDS
        try:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(SHOWN_AFTER_SECONDS)
            tell(f"sending the rest to MLflow … (Ctrl-C: leave it to {self.sender.again(self.folder)})")
            return process.wait(max(0.0, until - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            return None

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


def handover(tracking: Tracking, secrets: Iterable[str]) -> ExportRequest:
    """User, password and token are in the environment, under MLflow's own names; the address goes without them."""
    longest_first = sorted(filter(None, secrets), key=len, reverse=True)
    if isinstance(tracking, LocalTracking):
        return ExportRequest(asdict(tracking), local=True, secrets=longest_first)
    fields = {"uri": tracking.address(), "experiment": tracking.experiment, "wait_seconds": tracking.wait_seconds}
    return ExportRequest(fields, local=False, secrets=longest_first)


def format_view_line(tracking: Tracking, link: dict[str, str] | None) -> str | None:
    """How to look at a run that is in MLflow."""
    if link is None:
        return None
    page = f"#/experiments/{link['experiment_id']}/runs/{link['run_id']}"
    if not isinstance(tracking, LocalTracking):
        return f"see it: {tracking.shown_uri}/{page}"
    own = tracking.path() != OUTPUTS
    ui = f"mlflow ui --backend-store-uri {tracking.shown_uri}" if own else "make ui"
    return f"see it: {ui}, then http://127.0.0.1:5000/{page}"
