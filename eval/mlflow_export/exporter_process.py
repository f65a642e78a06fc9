"""The process that sends one run to MLflow while the run goes on, and the contract of the exports that it drives.

    if __name__ == "__main__":
        run_exporter(RunExport)             # python -m eval.mlflow_export.run_export FOLDER

`ExporterLauncher` starts it and writes to its standard input. Its log is `logs/mlflow.log`, its result `mlflow.json`.
`sync` runs the same code on a run that has ended.
"""

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from structlog.types import FilteringBoundLogger

from eval.config.tracking import Tracking
from eval.mlflow_export.exporter_launcher import ExportRequest, RunEnd
from eval.mlflow_export.tracked_run import COMPLETE, TrackedRun
from eval.runs.folder import RunLock
from eval.runs.logs import open_log
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

    def count(self) -> Counts:
        """Count what the folder has and what MLflow has."""
        return {}

    def describe_sent(self) -> str:
        """Say in a few words what was sent."""
        return ""

    def close(self) -> None:
        """Close the run's files."""


class Exporter:
    """Drives one export to its end. Lets no exception through but, once the run has ended, a mistake of the user."""

    def __init__(
        self,
        export: Export,
        end: RunEnd,
        wait_seconds: float,
        log: FilteringBoundLogger,
        live: bool = True,
        sync_command: str = "",
    ) -> None:
        """
        Args:
            export: sends the run to MLflow.
            end: tells when and how the run has ended.
            wait_seconds: time after the end of the run, for what MLflow does not have yet.
            log: logger for this process.
            live: the run goes on, so MLflow shows it as running; else it is only completed there.
            sync_command: completes what this process leaves undone.
        """
        self.export, self.end, self.wait_seconds, self.log, self.live = export, end, wait_seconds, log, live
        self.sync_command = sync_command
        self._has_begun = self._is_sent_again = False
        self._failure = ""  # the last one since something succeeded, as a sentence
        self._failures = 0  # since then

    def run(self) -> ExportState:
        """Send until the run is over and everything is sent, or the time for it is up.

        Returns:
            The state as written to `mlflow.json`.
        """
        pause = 0.0
        while not self.end.over.wait(pause):
            pause = POLL_SECONDS if self._try(self._follow) else min(2 * pause + POLL_SECONDS, MAX_PAUSE_SECONDS)
        if self.end.died:
            self.log.warning("the run's process has died")
        self._failures = 0  # those while the run went on say nothing of MLflow at its end
        while not (is_done := self._try(self._complete)) and self._failures < ATTEMPTS and not self._is_late():
            time.sleep(POLL_SECONDS)
        is_reached = is_done
        if not is_done and self.export.is_open:
            is_reached = self._try(self.export.end)  # at least its status, and what can be said of its answers
            is_reached = self._try(self._count) or is_reached
        state = self._describe_end(is_done)
        if is_reached:
            self._try(lambda: self.export.run.mark(state.warning or COMPLETE))
        self.log.info("export ended", complete=state.complete, counts=state.counts, cpu_seconds=state.cpu_seconds)
        write_state(self.export.folder, state)
        return state

    def _follow(self) -> None:
        """Bring MLflow up to what the folder has now."""
        self._begin()
        while self.export.send_new() and not self.end.over.is_set():
            self._note_success()
        self._note_success()

    def _begin(self) -> None:
        if self._has_begun:
            return
        run = self.export.run
        self.log.info("run found or created in MLflow", mlflow_run=run.run_id)
        if self.live:
            run.begin()
            write_state(self.export.folder, self.export.state)
        self._has_begun = True
        if self.live:
            self._try(self.export.show)  # what is only shown must not keep the records from being sent

    def _complete(self) -> None:
        """Send the rest and what only the end can bring; everything again, once, if something is missing then.

        A crash leaves traces without their spans, and MLflow may accept by then what it has refused.
        """
        self._begin()
        while self.export.send_new():
            self._note_success()
            if self._is_late():
                raise TimeoutError(f"the {self.wait_seconds:g} s after the end of the run were over")
        self._count()
        is_short = describe_shortfall(self.export.state.counts) or self.export.refusal
        if is_short and not self._is_sent_again:
            self._is_sent_again = True
            self.export.send_all_again()
            return self._complete()
        self.export.end()
        self._note_success()
        return None

    def _note_success(self) -> None:
        self._failures, self._failure = 0, ""

    def _is_late(self) -> bool:
        return self.end.seconds_since > self.wait_seconds

    def _describe_end(self, is_done: bool) -> ExportState:
        """Return the state, with a warning that says what is missing."""
        state, missing = self.export.state, describe_shortfall(self.export.state.counts)
        state = replace(state, cpu_seconds=time.process_time(), seconds_after_the_end=self.end.seconds_since)
        if is_done and not missing and not self.export.refusal:
            return replace(state, complete=True)
        has = (missing or "not everything of this run") if self.export.is_open else "nothing of this run"
        reason = self._failure or self.export.refusal
        why = f" ({reason})" if reason else ""
        return replace(state, warning=f"MLflow has {has}{why}; complete it with: {self.sync_command}")

    def _count(self) -> None:
        self.export.state = replace(self.export.state, counts=self.export.count())

    def _try(self, step: Callable[[], object]) -> bool:
        """Return whether a step succeeded; whatever MLflow raises is kept for the warning."""
        try:
            step()
        except Exception as error:  # whatever it is, the run counts as incomplete until it is repeated
            if isinstance(error, UserError) and not self.live:
                raise
            self._failures += 1
            self._failure = self.export.redact(describe_failure(error, self.export.settings.address()))
            self.log.warning("MLflow did not accept it", error=self._failure)
            return False
        return True


def describe_failure(error: BaseException, uri: str) -> str:
    """Shorten an error to one line; network libraries write half a screen about a server that is down."""
    if any(type(each).__name__ in _UNREACHABLE for each in walk_chain(error, contexts=True)):
        return f"{uri} cannot be reached"
    lines = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {lines[0][:200]}"


def describe_shortfall(counts: Mapping[str, Mapping[str, int]]) -> str | None:
    """Return the counts that differ, in words; None if none does.

    describe_shortfall({"traces": {"store": 64, "mlflow": 63}})        # "63 of 64 traces"
    """
    different = [
        f"{each['mlflow']} of {each['store']} {name}"
        for name, each in counts.items()
        if each["mlflow"] != each["store"]
    ]
    return ", ".join(different) or None


def run_exporter(open_export: Callable[[Path, Tracking, Redact], Export]) -> NoReturn:
    """Run the exporter process: `FOLDER` is its argument, its standard input the tie to the run.

    Exit codes: 0 everything is in MLflow · 3 not everything, or nothing.
    """
    os.nice(_NICENESS)
    code = _export_folder(Path(sys.argv[1]).absolute(), open_export)
    os._exit(code)  # an ordinary exit would wait for the thread that reads standard input


def _export_folder(folder: Path, open_export: Callable[[Path, Tracking, Redact], Export]) -> int:
    request = ExportRequest(**json.loads(sys.stdin.readline()))
    end = RunEnd(sys.stdin)
    log, file = open_log(folder, "mlflow", request.secrets)
    lock = RunLock(folder / STATE)
    try:
        lock.take(LOCK_SECONDS)
        settings = request.build_tracking()
        with closing(open_export(folder, settings, request.redact)) as export:
            state = Exporter(export, end, settings.wait_seconds, log, sync_command=request.sync_command).run()
        return 0 if state.complete else 3
    except Exception:  # the boundary of a process that has nobody to raise to
        log.error("the exporter failed", exc_info=True)
        return 3
    finally:
        lock.release()
        file.close()
