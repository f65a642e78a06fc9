"""The exporter process as the run sees it: start it, wait for it once the run is over, report the outcome.

MLflow is not imported here, and no failure of the exporter is a failure of the run.
"""

import pickle
import pkgutil
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple, Self

from eval.cli.paths import OUTPUTS
from eval.config.evaluation import NoTracking
from eval.config.tracking import LocalTracking, ServerTracking, Tracking
from eval.runs.folder import format_path
from eval.runs.mlflow_state import STATE, read_link, read_state
from mas.runtime.security.child_environment import NETWORK, build_child_environment
from mas.runtime.security.redaction import sort_secrets

if TYPE_CHECKING:
    from eval.mlflow_export.exporter import Export

LOG = "logs/mlflow.log"
_PATIENT_SECONDS = 2.0  # of waiting, before a line says so
# Variables of the exporter besides `tracking.environment()`: of a server also its certificates, proxy and storage.
_OWN = ("PYTHON*", "XDG_STATE_HOME")  # with the list of the runs made here it knows whose a run is
_OF_SERVER = (
    *NETWORK,
    *("MLFLOW_TRACKING_AUTH", "MLFLOW_TRACKING_AWS_SIGV4", "MLFLOW_TRACKING_INSECURE_TLS", "MLFLOW_TRACKING_*_PATH"),
    *("MLFLOW_S3_*", "AWS_*", "AZURE_STORAGE_*", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"),
)


class ExportKind(NamedTuple):
    """A kind of run that is exported: what it sends, and the command that completes an export."""

    export: str  # name of its subclass of `Export`, which is imported in the exporter's process
    script: str
    outputs: str  # folder under outputs/ whose runs the command finds by name

    def load(self) -> "type[Export]":
        kind: type[Export] = pkgutil.resolve_name(self.export)
        return kind

    def format_sync_command(self, folder: Path) -> str:
        name = folder.name if folder.parent == OUTPUTS / self.outputs else format_path(folder)
        return f"python {self.script} {shlex.quote(name)}"


EVALUATION = ExportKind("eval.mlflow_export.run_export:RunExport", "eval/sync.py", "eval")


class ExportRequest(NamedTuple):
    """What an exporter is to send, and where to; its secrets never appear on a command line."""

    kind: ExportKind
    tracking: Tracking
    secrets: tuple[str, ...]  # of the tracking, longest first: what the run stores has none


class ExportOutcome(NamedTuple):
    """What a run prints about MLflow at its end."""

    warning: str | None = None  # what is missing there
    view_line: str | None = None  # how to look at the run


class ExporterLauncher:
    """Exporter process of one run; with tracking=off there is none. Without `finish` MLflow shows the run as KILLED."""

    def __init__(self, tracking: Tracking | NoTracking, folder: Path, kind: ExportKind = EVALUATION) -> None:
        self.tracking, self.folder = tracking, folder
        self.sync_command = kind.format_sync_command(folder)
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):  # `finish` says then that MLflow does not have the run
            (folder / STATE).unlink(missing_ok=True)  # of an earlier session: MLflow does not have this one
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
        secrets = tuple(sort_secrets(tracking.secrets()))
        if source := self._process.stdin:
            with suppress(OSError):  # it has died already; `finish` will report that
                pickle.dump(ExportRequest(kind, tracking, secrets), source)
                source.flush()

    def finish(self, show: Callable[[str], None]) -> ExportOutcome:
        """Report the end of the run, and wait for the exporter; Ctrl-C ends the waiting, not the export.

        What takes longer than the settings allow is sent after the command has ended, or by the sync command.
        """
        if isinstance(self.tracking, NoTracking):
            return ExportOutcome()
        has_ended = self._wait(self.tracking.wait_seconds, show)
        state = read_state(self.folder)
        warning = state.warning if state else None
        if not has_ended:
            later = f"the rest is sent in the background; should that fail: {self.sync_command}"
            warning = f"MLflow does not have the whole run yet; {later}"
        elif state is None or not (state.complete or warning):
            log = self.folder / LOG
            warning = f"the process that sends the run to MLflow died, see {log}; complete it with: {self.sync_command}"
        return ExportOutcome(warning, format_view_line(self.tracking, read_link(self.folder)))

    def _wait(self, wait_seconds: float, show: Callable[[str], None]) -> bool:
        """Return whether the exporter has ended."""
        if (process := self._process) is None:
            return False
        self._close_input()
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            try:
                process.wait(min(_PATIENT_SECONDS, wait_seconds))
            except subprocess.TimeoutExpired:
                show("sending the rest to MLflow … (Ctrl-C: go on without waiting)")
                process.wait(max(0.0, wait_seconds - _PATIENT_SECONDS))
        return process.poll() is not None

    def _close_input(self) -> None:
        if self._process and self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_input()
        if self._process and self._process.poll() is None:
            Thread(target=self._process.wait, daemon=True).start()  # it ends by itself; its exit code must be collected


def format_view_line(tracking: Tracking, link: dict[str, str] | None) -> str | None:
    """Return a line that says how to look at a run that is in MLflow."""
    if link is None:
        return None
    page = f"#/experiments/{link['experiment_id']}/runs/{link['run_id']}"
    if not isinstance(tracking, LocalTracking):
        return f"see it: {tracking.address()}/{page}"
    own = tracking.path() != OUTPUTS
    ui = f"mlflow ui --backend-store-uri {tracking.address()}" if own else "make ui"
    return f"see it: {ui}, then http://127.0.0.1:5000/{page}"
