"""The process that sends one run to MLflow while the run goes on, and the contract of the exports that it drives.

    if __name__ == "__main__":
        run_exporter(RunExport)             # python -m eval.mlflow_export.run_export FOLDER

`ExporterLauncher` starts it and writes to its standard input. Its log is `logs/mlflow.log`, its result `mlflow.json`.
"""

import json
import os
import random
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, NoReturn

from structlog.types import FilteringBoundLogger

from eval.config.tracking import Tracking
from eval.mlflow_export.exporter_launcher import ExportRequest, RunEnd
from eval.mlflow_export.tracked_run import TrackedRun, close_dead_runs
from eval.runs.folder import RunLock
from eval.runs.logs import open_log
from eval.runs.mlflow_state import STATE, ExportState, write_state
from mas.runtime.errors import walk_chain

POLL_SECONDS = 1.0
BEAT_SECONDS = 10.0
MAX_PAUSE_SECONDS = 30.0  # between attempts while the run goes on
_MAX_LAST_PAUSE_SECONDS = 3.0  # … and once it is over
MAX_FAILURES = 20  # in a row, of an MLflow that works, once the run is over: a record that cannot be sent stays so
PATIENCE_SECONDS = 10.0  # with an MLflow that fails and fails, once the run is over
LOCK_SECONDS = 60.0  # for the process of an earlier session, which may be sending its last batch
_NICENESS = 19  # the lowest priority: the run comes first
_UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "NewConnectionError")  # of requests and urllib3

Redact = Callable[[str], str]
Counts = dict[str, dict[str, int]]  # "traces" … → {"store": 64, "mlflow": 63}


class Export(ABC):
    """One run's way from its folder into MLflow. Each step may fail and be repeated; none changes the run."""

    required_counts: ClassVar[tuple[str, ...]] = ()  # of which none may fall short, or everything is sent again

    def __init__(self, folder: Path, settings: Tracking, redact: Redact) -> None:
        """
        Args:
            folder: the run's folder; its process may be writing there.
            settings: address, experiment and limits of MLflow.
            redact: takes secrets out of a text.
        """
        self.folder, self.settings, self.redact = folder, settings, redact
        self.state = ExportState(uri=settings.address(), experiment=settings.experiment)
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

    def begin(self) -> None:
        """Show the run as running."""
        self.run.beat()  # first: a run that is resumed must not look dead to another one that starts now
        self.run.begin()

    def show(self) -> None:
        """Show the settings of the running run."""

    def send_new(self) -> int:
        """Send what is new in the folder; return the number of records read, 0 if nothing is left to send."""
        return 0

    def note_refusal(self) -> None:
        """MLflow can be written, but refused what `send_new` sent last."""

    def send_all_again(self) -> None:
        """Forget what was sent, so that `send_new` begins with the first record."""

    @abstractmethod
    def end(self) -> None:
        """Send what only the end of the run brings, and close the run in MLflow."""

    def close_run(self) -> None:
        """Close the run in MLflow, and nothing else."""

    def count(self) -> Counts:
        """Count what the folder has and what MLflow has."""
        return {}

    def count_sent(self) -> Counts:
        """Count what the folder has and what this process has sent, without asking MLflow."""
        return {}

    def show_warning(self, warning: str | None) -> None:
        """Say on the run's page whether all of the run is in MLflow."""

    def describe_sent(self) -> str:
        """Say in a few words what was sent."""
        return ""

    def close(self) -> None:
        """Close the run's files."""


class Exporter:
    """Drives one export to its end. Lets no exception of MLflow through."""

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
        self._begun = False
        self._worked = False  # MLflow, in this session, ever
        self._last_success = self._last_beat = time.monotonic()
        self._failure: str | None = None  # the last one, as a sentence
        self._failures = 0  # since something was sent last

    def run(self) -> ExportState:
        """Send until the run is over and everything is sent, or the time for it is up.

        Returns:
            The state as written to `mlflow.json`.
        """
        pause = POLL_SECONDS
        while not self.end.over.is_set():
            pause = POLL_SECONDS if self._try(self._follow) else min(2 * pause, MAX_PAUSE_SECONDS)
            self.end.over.wait(random.uniform(POLL_SECONDS, pause))
        if self.end.died:
            self.log.warning("the run's process has died")
        state = replace(self._complete(), cpu_seconds=time.process_time(), seconds_after_the_end=self.end.seconds_since)
        self.log.info("export ended", complete=state.complete, counts=state.counts, cpu_seconds=state.cpu_seconds)
        write_state(self.export.folder, state)
        return state

    def _follow(self) -> None:
        """Bring MLflow up to what the folder has now."""
        self._begin()
        while self._send_batch() and not self.end.over.is_set():
            self._beat_if_due()
        self._beat_if_due()

    def _begin(self) -> None:
        """Begin once. What is only shown must not keep the records from being sent; the end sends it again."""
        if self._begun:
            return
        if self.live:
            self.export.begin()
        self.log.info("run found or created in MLflow", mlflow_run=self.export.run.run_id)
        self._note_success()
        self._begun = True
        self._try(self._show)

    def _show(self) -> None:
        if closed := close_dead_runs(self.export.run):
            self.log.warning("runs closed whose processes had died", mlflow_runs=closed)
        if self.live:
            write_state(self.export.folder, self.export.state)
            self.export.show()

    def _send_batch(self) -> int:
        try:
            number = self.export.send_new()
        except Exception:
            if self._is_writable():
                self.export.note_refusal()
            raise
        self._note_success()
        self._failures = 0
        return number

    def _beat_if_due(self) -> None:
        if self.live and time.monotonic() - self._last_beat >= BEAT_SECONDS:
            self.export.begin()  # another process may have closed it, after a silence
            self._last_beat = time.monotonic()
            self._note_success()

    def _complete(self) -> ExportState:
        """Send what only the end can bring, as far as there is time and MLflow accepts it."""
        done = all(self._persist(step) for step in (self._send_rest, self.export.end, self._count))
        reachable = done or (self.export.is_open and self._is_writable())
        if reachable and not done and not self._try(self.export.end):
            self._try(self.export.close_run)  # at least its status: MLflow refuses some of the rest
        state = self.export.state
        state = state if done and state.complete else self._build_incomplete_state()
        if reachable:
            self._try(lambda: self.export.show_warning(state.warning))
        return state

    def _is_writable(self) -> bool:
        try:
            self.export.run.beat()
        except Exception:  # noqa: BLE001 - whatever it raises: that is the answer
            return False
        self._note_success()
        return True

    def _try(self, step: Callable[[], object]) -> bool:
        """Return whether a step succeeded; whatever MLflow raises is kept for the warning."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - whatever it is, the run counts as incomplete until it is repeated
            self._note_failure(error)
            return False
        return True

    def _build_incomplete_state(self) -> ExportState:
        """Return the state with a warning that says what is missing."""
        counts = self.export.state.counts or self.export.count_sent()
        missing = describe_shortfall(counts) if self.export.is_open else "nothing of this run"
        why = f" ({self._failure})" if self._failure else ""
        warning = f"MLflow has {missing or 'not been counted'}{why}; complete it with: {self.sync_command}"
        return replace(self.export.state, counts=counts, complete=False, warning=warning)

    def _send_rest(self) -> None:
        self._begin()
        while self._send_batch():
            if self.end.seconds_since > self.wait_seconds:
                raise TimeoutError(f"the {self.wait_seconds:g} s of tracking.wait_seconds were over")

    def _count(self) -> None:
        """Count, and send everything again if something is missing: a crash leaves traces without their spans."""
        counts = self._keep_counts()
        if describe_shortfall({name: each for name, each in counts.items() if name in self.export.required_counts}):
            self.log.warning("counts differ; everything is sent again", counts=counts)
            self.export.send_all_again()
            self._send_rest()
            self._keep_counts()

    def _keep_counts(self) -> Counts:
        counts = self.export.count()
        self.export.state = replace(self.export.state, counts=counts, complete=describe_shortfall(counts) is None)
        return counts

    def _persist(self, step: Callable[[], object]) -> bool:
        """Repeat a step until it succeeds or the time is up; return whether it succeeded."""
        pause = POLL_SECONDS / 2
        while not self._try(step):
            if not self._has_time_left():
                return False
            time.sleep(min(random.uniform(0.0, pause), self.wait_seconds))
            pause = min(2 * pause, _MAX_LAST_PAUSE_SECONDS)
        return True

    def _has_time_left(self) -> bool:
        """While MLflow works: `wait_seconds`; while it does not, a moment, and not even that if it never worked."""
        silent = min(time.monotonic() - self._last_success, self.end.seconds_since)
        patience = PATIENCE_SECONDS if self._worked else 0.0
        in_time = self.end.seconds_since <= self.wait_seconds and silent <= patience
        return in_time and self._failures < MAX_FAILURES

    def _note_success(self) -> None:
        self._worked, self._last_success = True, time.monotonic()

    def _note_failure(self, error: BaseException) -> None:
        self._failures += 1
        self._failure = self.export.redact(_describe_failure(error, self.export.settings.address()))
        self.log.warning("MLflow did not accept it", error=self._failure)


def _describe_failure(error: BaseException, uri: str) -> str:
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
        f"{each['mlflow']} of {each['store']} {name}" if each["store"] else f"{each['mlflow']} {name}"
        for name, each in counts.items()
        if each["mlflow"] != each["store"]
    ]
    return ", ".join(different) or None


def run_exporter(open_export: Callable[[Path, Tracking, Redact], Export], live: bool = True) -> NoReturn:
    """Run the exporter process: `FOLDER` is its argument, its standard input the tie to the run.

    Exit codes: 0 everything is in MLflow · 3 not everything, or nothing.
    """
    if live:
        os.nice(_NICENESS)
    code = _export_folder(Path(sys.argv[1]).absolute(), open_export, live)
    os._exit(code)  # an ordinary exit would wait for the thread that reads standard input


def _export_folder(folder: Path, open_export: Callable[[Path, Tracking, Redact], Export], live: bool) -> int:
    request = ExportRequest(**json.loads(sys.stdin.readline()))
    end = RunEnd(sys.stdin)
    log, file = open_log(folder, "mlflow", request.secrets)
    lock = RunLock(folder / STATE)
    try:
        lock.take(LOCK_SECONDS)
        settings = request.build_tracking()
        export = open_export(folder, settings, request.redact)
        with closing(export):
            state = Exporter(export, end, settings.wait_seconds, log, live, request.sync_command).run()
        return 0 if state.complete else 3
    except Exception:  # the boundary of a process that has nobody to raise to
        log.error("the exporter failed", exc_info=True)
        return 3
    finally:
        lock.release()
        file.close()
