"""The process that sends one run to MLflow while the run goes on. `sync` runs the same code on a run that has ended.

    if __name__ == "__main__":
        run_exporter(RunExport)             # python -m eval.mlflow_export.run_export FOLDER

`ExporterLauncher` starts it and closes its standard input when the run is over. Its log is `logs/mlflow.log`, and its
result is `mlflow.json`.
"""

import os
import pickle
import select
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import IO, NoReturn

from eval.config.tracking import Tracking
from eval.mlflow_export.exporter_launcher import ExportRequest
from eval.mlflow_export.tracked_run import COMPLETE, TrackedRun
from eval.runs.folder import RunLock
from eval.runs.logs import Log, open_log
from eval.runs.mlflow_state import STATE, ExportState, write_state
from mas.runtime.errors import UserError, walk_chain

POLL_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0  # between attempts while the run goes on
ATTEMPTS = 3  # in a row, once the run is over
LOCK_SECONDS = 60.0  # for the process of an earlier session, which may be sending its last batch
_NICENESS = 19  # the lowest priority: the run comes first
_UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "NewConnectionError")  # of requests and urllib3

Redact = Callable[[str], str]
Counts = dict[str, dict[str, int]]  # "traces" … → {"store": 64, "mlflow": 63}


class RunEnd:
    """The end of the run, which is the end of the exporter's standard input."""

    def __init__(self, source: IO[bytes] | None = None) -> None:
        """`source`: None if the run is over."""
        self._source, self._at = source, time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Return whether the run ends within so many seconds."""
        if self._source is not None and not select.select([self._source], [], [], seconds)[0]:
            return False
        self._at = time.monotonic()
        return True

    @property
    def seconds_since(self) -> float:
        return time.monotonic() - self._at


class Export(ABC):
    """One run's way from its folder into MLflow. Each step may fail and be repeated; none changes the run."""

    def __init__(self, folder: Path, settings: Tracking, redact: Redact) -> None:
        """
        Args:
            folder: the run's folder; its process may be writing there.
            settings: address, experiment and limits of MLflow.
            redact: takes secrets out of a text.
        """
        self.folder, self.settings, self.redact = folder, settings, redact
        self.state = ExportState(uri=settings.address(), experiment=settings.experiment)
        self.refusal = ""  # why MLflow did not accept a record, while it accepted others
        self._run: TrackedRun | None = None
        self._has_begun = False
        self._failure = ""  # the last one since something succeeded, as a sentence
        self._failures = 0  # since then

    @property
    def run(self) -> TrackedRun:
        """The run in MLflow, found or created at the first call."""
        if self._run is None:
            run = self.open_run()
            self.state = replace(self.state, experiment_id=run.experiment_id, run_id=run.run_id)
            self._run = run  # last: an attempt that failed half-way is repeated
        return self._run

    @property
    def is_open(self) -> bool:
        return self._run is not None

    @abstractmethod
    def open_run(self) -> TrackedRun:
        """Find or create the run in MLflow."""

    def show(self) -> None:
        """Show the settings of the running run."""

    def send_new(self) -> int:
        """Send what is new in the folder; return the number of records read, 0 if nothing is left to send."""
        return 0

    def send_all_again(self) -> None:
        """Forget what was sent, so that `send_new` begins with the first record."""

    @abstractmethod
    def end(self) -> None:
        """Send what only the end of the run brings, and close the run in MLflow."""

    @abstractmethod
    def count(self) -> Counts:
        """Count what the folder has and what MLflow has."""

    @abstractmethod
    def describe_sent(self) -> str:
        """Say in a few words what was sent."""

    def close(self) -> None:
        """Close the run's files."""

    def export(self, ended: RunEnd, log: Log, sync_command: str = "", is_live: bool = True) -> ExportState:
        """Send until the run is over and everything is sent, or MLflow has failed several times in a row.

        Args:
            ended: says when the run has ended.
            log: of this process.
            sync_command: completes what this process leaves undone.
            is_live: the run goes on, so MLflow shows it as running; else it is only completed there.

        Returns:
            The state as written to `mlflow.json`.

        Raises:
            UserError: a mistake of the user, if the run had ended before.
        """
        self._log, self._is_live = log, is_live
        pause = 0.0
        while not ended.wait(pause):
            pause = POLL_SECONDS if self._try(self._follow) else min(2 * pause + POLL_SECONDS, MAX_PAUSE_SECONDS)
        self._failures = 0  # those while the run went on say nothing of MLflow at its end
        while not (is_done := self._try(self._complete)) and self._failures < ATTEMPTS:
            time.sleep(POLL_SECONDS)
        reason = self._failure
        # If it is not done, MLflow gets at least the run's status, and what can be said of its answers.
        is_reached = is_done or (self.is_open and any([self._try(self.end), self._try(self._count)]))
        missing = describe_shortfall(self.state.counts)
        if not is_done or missing or self.refusal:
            has = (missing or "not everything of this run") if self.is_open else "nothing of this run"
            why = f" ({reason or self.refusal})" if reason or self.refusal else ""
            warning = f"MLflow has {has}{why}; complete it with: {sync_command}"
            self.state = replace(self.state, warning=warning)
        else:
            self.state = replace(self.state, complete=True)
        if is_reached:
            self._try(lambda: self.run.mark(self.state.warning or COMPLETE))
        cpu_seconds, late_seconds = time.process_time(), ended.seconds_since
        self.state = replace(self.state, cpu_seconds=cpu_seconds, seconds_after_the_end=late_seconds)
        log.info("export ended", complete=self.state.complete, counts=self.state.counts, cpu_seconds=cpu_seconds)
        write_state(self.folder, self.state)
        return self.state

    def _follow(self) -> None:
        """Bring MLflow up to what the folder has now."""
        if not self._has_begun:
            self._log.info("run found or created in MLflow", mlflow_run=self.run.run_id)
            if self._is_live:
                self.run.begin()
                write_state(self.folder, self.state)
            self._has_begun = True
            if self._is_live:
                self._try(self.show)  # what is only shown must not keep the records from being sent
        while self.send_new():
            self._failures, self._failure = 0, ""

    def _complete(self) -> None:
        """Send the rest and what only the end can bring; everything again, once, if something is missing then.

        A crash leaves traces without their spans, and MLflow may accept by then what it has refused.
        """
        self._follow()
        self._count()
        if describe_shortfall(self.state.counts) or self.refusal:
            self.send_all_again()
            self._follow()
            self._count()
        self.end()

    def _count(self) -> None:
        self.state = replace(self.state, counts=self.count())

    def _try(self, step: Callable[[], object]) -> bool:
        """Return whether a step succeeded; whatever MLflow raises is kept for the warning."""
        try:
            step()
        except Exception as error:  # whatever it is, the run counts as incomplete until it is repeated
            if isinstance(error, UserError) and not self._is_live:
                raise
            self._failures += 1
            self._failure = self.redact(describe_failure(error, self.settings.address()))
            self._log.warning("MLflow did not accept it", error=self._failure)
            return False
        self._failures, self._failure = 0, ""
        return True


def describe_failure(error: BaseException, uri: str) -> str:
    """Shorten an error to one line; network libraries write half a screen about a server that is down."""
    if any(type(each).__name__ in _UNREACHABLE for each in walk_chain(error, contexts=True)):
        return f"{uri} cannot be reached"
    lines = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {lines[0][:200]}"


def describe_shortfall(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return the counts that differ, in words; empty if none does.

    describe_shortfall({"traces": {"store": 64, "mlflow": 63}})        # "63 of 64 traces"
    """
    pairs = [(name, each["mlflow"], each["store"]) for name, each in counts.items()]
    return ", ".join(f"{there} of {stored} {name}" for name, there, stored in pairs if there != stored)


def run_exporter(open_export: Callable[[Path, Tracking, Redact], Export]) -> NoReturn:
    """Run the exporter process: `FOLDER` is its argument, its standard input the tie to the run.

    Exit codes: 0 everything is in MLflow · 3 not everything, or nothing · 1 it failed, as its log says.
    """
    os.nice(_NICENESS)
    sys.exit(_export_folder(Path(sys.argv[1]).absolute(), open_export))


def _export_folder(folder: Path, open_export: Callable[[Path, Tracking, Redact], Export]) -> int:
    request: ExportRequest = pickle.load(sys.stdin.buffer)
    ended = RunEnd(sys.stdin.buffer)
    log = open_log(folder, "mlflow", request.secrets)
    lock = RunLock(folder / STATE)
    try:
        lock.take(LOCK_SECONDS)
        with closing(open_export(folder, request.tracking, request.redact)) as export:
            state = export.export(ended, log, request.sync_command)
        return 0 if state.complete else 3
    except Exception as error:  # noqa: BLE001  the boundary of a process that has nobody to raise to
        log.error("the exporter failed", exception=error)
        return 1
    finally:
        lock.release()
        log.close()
