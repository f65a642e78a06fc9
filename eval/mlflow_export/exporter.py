"""The exporter of a run to MLflow: a process of its own while the run goes on, and `sync` on a run that has ended.

    with ExporterLauncher(tracking, folder) as exporter:     # in the run's process, which loads no MLflow
        ...
        exporter.finish(print, warn=print)                   # waits for the exporter, and says what came of it
    python -m eval.mlflow_export FOLDER                      # the exporter's process: `export_folder`

It follows the run's store and sends what is new. What that is depends on the kind of the run: each has an `Export`. No
failure of the exporter is a failure of the run.
"""

import json
import pickle
import pkgutil
import select
import shlex
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import IO, NamedTuple, Self

from eval.cli.paths import OUTPUTS
from eval.config.evaluation import NoTracking
from eval.config.tracking import LocalTracking, ServerTracking, Tracking
from eval.mlflow_export.tracked_run import COMPLETE, TrackedRun, read_start_ms, to_ms
from eval.runs.folder import DATABASE, MLFLOW_STATE, RunLock, format_path, write_lines
from eval.runs.logs import Log
from eval.runs.store import RunStore
from mas.runtime.errors import UserError, walk_chain
from mas.runtime.security.child_environment import NETWORK, build_child_environment

POLL_SECONDS = 1.0
PAUSE_SECONDS = 10.0  # after a failure while the run goes on
ATTEMPTS = 3  # once the run is over
LOCK_SECONDS = 60.0  # for the process of an earlier session, which may be sending its last batch
_UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "NewConnectionError")  # of requests and urllib3

LOG = "logs/mlflow.log"
_PATIENT_SECONDS = 2.0  # of waiting, before a line says so
# Variables of the exporter besides `tracking.environment()`: of a server also its certificates, proxy and storage.
_OWN = ("PYTHON*", "XDG_STATE_HOME")  # with the list of the runs made here it knows whose a run is
_OF_SERVER = (
    *NETWORK,
    *("MLFLOW_TRACKING_AUTH", "MLFLOW_TRACKING_AWS_SIGV4", "MLFLOW_TRACKING_INSECURE_TLS", "MLFLOW_TRACKING_*_PATH"),
    *("MLFLOW_S3_*", "AWS_*", "AZURE_STORAGE_*", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"),
)

Counts = dict[str, dict[str, int]]  # "traces" … → {"store": 64, "mlflow": 63}


class ExportKind(NamedTuple):
    """A kind of run that is exported: what it sends, and the command that completes an export."""

    export: str  # name of its subclass of `Export`, which is imported in the exporter's process
    package: str  # of its commands, and folder under outputs/ of its runs

    def load(self) -> "type[Export]":
        kind: type[Export] = pkgutil.resolve_name(self.export)
        return kind

    def format_sync_command(self, folder: Path) -> str:
        name = folder.name if folder.parent == OUTPUTS / self.package else format_path(folder)
        return f"python {self.package}/sync.py {shlex.quote(name)}"


EVALUATION = ExportKind("eval.mlflow_export.run_export:RunExport", "eval")


@dataclass
class ExportState:
    """State of a run's copy in MLflow: `mlflow.json` in the run's folder, written by the last process that sent it.

    Only messages depend on it: all ids in MLflow are derived, so a lost file costs no more than a look.
    """

    uri: str = ""  # without user and password
    experiment_id: str = ""
    run_id: str = ""  # MLflow's; empty: it has no such run yet
    status: str = "RUNNING"  # of the run in MLflow
    complete: bool = False  # whether all counts were equal at the end
    counts: Counts = field(default_factory=dict)
    warning: str | None = None  # one sentence


def read_state(folder: Path) -> ExportState | None:
    """Return the state; None if nothing was ever sent, or the file cannot be read."""
    try:
        return ExportState(**json.loads((folder / MLFLOW_STATE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_state(folder: Path, state: ExportState) -> None:
    write_lines(folder / MLFLOW_STATE, [json.dumps(asdict(state), indent=2)])


class ExporterLauncher:
    """Exporter process of one run; with tracking=off there is none. Without `finish` MLflow shows the run as KILLED."""

    def __init__(self, tracking: Tracking | NoTracking, folder: Path, kind: ExportKind = EVALUATION) -> None:
        self.tracking, self.folder = tracking, folder
        self.sync_command = kind.format_sync_command(folder)
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):  # `finish` says then that MLflow does not have the run
            (folder / MLFLOW_STATE).unlink(missing_ok=True)  # of an earlier session: MLflow does not have this one
            if not isinstance(tracking, NoTracking):
                self._start(tracking, kind)

    def _start(self, tracking: Tracking, kind: ExportKind) -> None:
        of_server = _OF_SERVER if isinstance(tracking, ServerTracking) else ()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __package__, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so Ctrl-C in the terminal does not reach it
            env=build_child_environment(*_OWN, *of_server, **tracking.environment()),
        )
        if source := self._process.stdin:
            with suppress(OSError):  # it has died already; `finish` will report that
                pickle.dump((kind, tracking), source)
                source.flush()

    def finish(self, show: Callable[[str], None], warn: Callable[[str], None]) -> None:
        """Wait for the exporter at the end of the run, and print the outcome; Ctrl-C ends the waiting, not the export.

        What takes longer than the settings allow is sent after the command has ended, or by the sync command.
        """
        if isinstance(self.tracking, NoTracking):
            return
        has_ended = self._wait(self.tracking.wait_seconds, show)
        state = read_state(self.folder)
        warning = state.warning if state else None
        if not has_ended:
            later = f"the rest is sent in the background; should that fail: {self.sync_command}"
            warning = f"MLflow does not have the whole run yet; {later}"
        elif state is None or not (state.complete or warning):
            log = self.folder / LOG
            warning = f"the process that sends the run to MLflow died, see {log}; complete it with: {self.sync_command}"
        if warning:
            warn(f"warning: {warning}")
        if line := format_view_line(self.tracking, state):
            show(line)

    def _wait(self, wait_seconds: float, show: Callable[[str], None]) -> bool:
        """Return whether the exporter has ended."""
        if (process := self._process) is None:
            return False
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            try:
                process.communicate(timeout=min(_PATIENT_SECONDS, wait_seconds))  # closes its input first
            except subprocess.TimeoutExpired:
                show("sending the rest to MLflow … (Ctrl-C: go on without waiting)")
                process.communicate(timeout=max(0.0, wait_seconds - _PATIENT_SECONDS))
        return process.poll() is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process and self._process.poll() is None:  # its input is closed, and its exit code collected
            Thread(target=self._process.communicate, daemon=True).start()


def format_view_line(tracking: Tracking, state: ExportState | None) -> str | None:
    """Return a line that says how to look at a run that is in MLflow."""
    if state is None or not state.run_id:
        return None
    page = f"#/experiments/{state.experiment_id}/runs/{state.run_id}"
    if not isinstance(tracking, LocalTracking):
        return f"see it: {tracking.address()}/{page}"
    own = tracking.path() != OUTPUTS
    ui = f"mlflow ui --backend-store-uri {tracking.address()}" if own else "make ui"
    return f"see it: {ui}, then http://127.0.0.1:5000/{page}"


class Export(ABC):
    """What a kind of run sends of its store. Each step may fail and be repeated; none changes the run."""

    def __init__(self, folder: Path, settings: Tracking, log: Log) -> None:
        """Open the run's store, in which its process may be writing; `log`: of this process."""
        self.folder, self.settings, self.log = folder, settings, log
        self.store = RunStore(folder / DATABASE, read_only=True)
        self.state = ExportState(uri=settings.address())
        self.sent = Counter[str]()  # by this process: "traces", …
        self.refusal = ""  # why MLflow did not accept a record, while it accepted others
        self._is_live = self._is_shown = False
        self._failure = ""  # of the last step, as a sentence

    @abstractmethod
    def open_run(self) -> TrackedRun:
        """Find or create the run in MLflow; raise UserError if it is not to be sent."""

    @abstractmethod
    def send_new(self) -> int:
        """Send what is new in the store; return how much was read, 0 if nothing is left to send."""

    @abstractmethod
    def send_all_again(self) -> None:
        """Forget what was sent, so that `send_new` begins with the first record."""

    @abstractmethod
    def end(self) -> None:
        """Send what only the end of the run brings, and close the run in MLflow."""

    @abstractmethod
    def count(self) -> Counts:
        """Count what the store has and what MLflow has."""

    @cached_property
    def run(self) -> TrackedRun:
        """The run in MLflow, found or created at the first call."""
        run = self.open_run()
        self.state = replace(self.state, experiment_id=run.experiment_id, run_id=run.run_id)
        return run

    def end_run(self, is_whole: bool, ended_at: str | None, *files: str) -> None:
        """Send the run's files and folders that exist, and close it at a moment in ISO 8601; None: at its beginning."""
        for path in (self.folder / name for name in files):
            if path.exists():
                self.run.client.log_artifact(self.run.run_id, str(path))
        status = "FINISHED" if is_whole else "KILLED"
        moment = to_ms(ended_at) if ended_at else read_start_ms(self.store.read_info())
        self.run.client.set_terminated(self.run.run_id, status, moment)
        self.state = replace(self.state, status=status)

    def close(self) -> None:
        self.store.close()

    def export(self, run_end: IO[bytes] | None, sync_command: str = "") -> ExportState:
        """Send until the run is over and everything is sent, or MLflow has failed; return what `mlflow.json` has then.

        The end of `run_end` is that of the run, which MLflow shows as running until then; None: the run is over, and a
        mistake of the user is a UserError. `sync_command` completes what this process leaves undone.
        """
        self._is_live = run_end is not None
        pause = 0.0
        while run_end and not select.select([run_end], [], [], pause)[0]:
            pause = POLL_SECONDS if self._try(self._follow) else PAUSE_SECONDS
        n_left = ATTEMPTS
        while not (is_done := self._try(self._complete)) and (n_left := n_left - 1):
            time.sleep(POLL_SECONDS)
        reason = self._failure or self.refusal
        # If it is not done, MLflow gets at least the run's status, and what can be said of its answers.
        is_reached = is_done or (self.state.run_id and any([self._try(self.end), self._try(self._count)]))
        missing, warning = self._describe_shortfall(), None
        if not is_done or missing or self.refusal:
            has = (missing or "not everything of this run") if self.state.run_id else "nothing of this run"
            warning = f"MLflow has {has}{f' ({reason})' if reason else ''}; complete it with: {sync_command}"
        if is_reached:
            self._try(lambda: self.run.mark(warning or COMPLETE))
        self.state = replace(self.state, complete=warning is None, warning=warning)
        self.log.write("info", "export ended", complete=self.state.complete, counts=self.state.counts)
        write_state(self.folder, self.state)
        return self.state

    def _follow(self) -> None:
        """Bring MLflow up to what the store has now."""
        run = self.run
        if self._is_live and not self._is_shown:
            run.client.update_run(run.run_id, status="RUNNING")  # also one that had ended
            write_state(self.folder, self.state)
            self._is_shown = True
        while self.send_new():
            pass

    def _complete(self) -> None:
        """Send the rest and what only the end can bring; everything again, once, if something is missing then.

        A crash leaves traces without their spans, and MLflow may accept by then what it has refused.
        """
        self._follow()
        self._count()
        if self._describe_shortfall() or self.refusal:
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
            self._failure = self.describe_failure(error)
            self.log.write("warning", "MLflow did not accept it", error=self._failure)
            return False
        self._failure = ""
        return True

    def describe_failure(self, error: BaseException) -> str:
        """Shorten an error to one line; network libraries write half a screen about a server that is down."""
        if any(type(each).__name__ in _UNREACHABLE for each in walk_chain(error, contexts=True)):
            return f"{self.state.uri} cannot be reached"
        lines = str(error).strip().splitlines() or ["no message"]
        return self.log.redact(f"{type(error).__name__}: {lines[0][:200]}")

    def _describe_shortfall(self) -> str:
        """Return the counts that differ, such as `63 of 64 traces`; empty if none does."""
        counts = [(name, each["mlflow"], each["store"]) for name, each in self.state.counts.items()]
        return ", ".join(f"{there} of {stored} {name}" for name, there, stored in counts if there != stored)


def export_folder(folder: Path) -> None:
    """Send the run in a folder, as the process of `ExporterLauncher`; log what fails: there is nobody to raise to.

    The standard input begins with the kind of the run and where to send it, and its end is the end of the run.
    """
    request: tuple[ExportKind, Tracking] = pickle.load(sys.stdin.buffer)
    kind, tracking = request
    lock = RunLock(folder / MLFLOW_STATE)
    with closing(Log(folder, "mlflow", tracking.secrets())) as log:
        try:
            lock.take(LOCK_SECONDS)
            with closing(kind.load()(folder, tracking, log)) as export:
                export.export(sys.stdin.buffer, kind.format_sync_command(folder))
        except Exception as error:  # noqa: BLE001
            log.write("error", "the exporter failed", exception=error)
        finally:
            lock.release()
