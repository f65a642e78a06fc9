"""The exporter process as the run sees it: start it, tell it when the run is over, wait for it, report the outcome.

MLflow is not imported here, and no failure of the exporter is a failure of the run.

    with ExporterLauncher(config.tracking, folder, config.secrets()) as exporter:
        ...                                                # the questions
        outcome = exporter.finish(print)                   # once the run's files are written
    outcome.warning, outcome.view_line
    # (None, "see it: make ui, then http://127.0.0.1:5000/#/experiments/1/runs/0f3a…")

The two processes share the exporter's standard input. Its first line is an `ExportRequest`; the line `finished` says
that the run has ended; an end of input without that line says that the run's process has died.
"""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Self, TextIO

from eval.cli.paths import OUTPUTS
from eval.config.tracking import LocalTracking, NoTracking, ServerTracking, Tracking
from eval.runs.folder import format_path
from eval.runs.mlflow_state import STATE, read_link, read_state, reset_state
from mas.runtime.security.child_environment import NETWORK, build_child_environment
from mas.runtime.security.redaction import build_redactor, sort_secrets

RUN_ENDED = "finished"
PATIENT_SECONDS = 2.0  # of waiting, before a line says so
LOG = "logs/mlflow.log"
# Variables of the exporter besides `tracking.environment()`: of a server also its certificates, proxy and storage.
_OWN = ("PYTHON*", "XDG_STATE_HOME")  # with the list of the runs made here it knows whose a run is
_TLS = ("MLFLOW_TRACKING_AUTH", "MLFLOW_TRACKING_AWS_SIGV4", "MLFLOW_TRACKING_INSECURE_TLS", "MLFLOW_TRACKING_*_PATH")
_STORAGE = ("MLFLOW_S3_*", "AWS_*", "AZURE_STORAGE_*", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT")
_GRACE_SECONDS = 5.0  # beyond the exporter's own time, for its last call


class ExportKind(NamedTuple):
    """A kind of run that is exported: the module of its exporter, and the command that completes an export."""

    module: str  # started with `python -m`
    script: str
    outputs: str  # folder under outputs/ whose runs the command finds by name

    def format_sync_command(self, folder: Path) -> str:
        name = folder.name if folder.parent == OUTPUTS / self.outputs else format_path(folder)
        return f"python {self.script} {shlex.quote(name)}"


EVALUATION = ExportKind("eval.mlflow_export.run_export", "eval/sync.py", "eval")


@dataclass
class ExportRequest:
    """Address of MLflow, secrets and options for the exporter; the request never appears on a command line."""

    tracking: dict[str, object]  # fields of LocalTracking or ServerTracking
    local: bool  # LocalTracking
    secrets: list[str] = field(default_factory=list)  # longest first
    sync_command: str = ""

    @classmethod
    def build(cls, tracking: Tracking, secrets: Iterable[str], sync_command: str = "") -> Self:
        """Build the request without user, password and token: these are in the environment, under MLflow's names."""
        is_local = isinstance(tracking, LocalTracking)
        fields = asdict(tracking) if is_local else {**asdict(tracking), "uri": tracking.address()}
        return cls(fields, is_local, sort_secrets([*secrets, *tracking.secrets()]), sync_command)

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    def redact(self, text: str) -> str:
        return build_redactor(tuple(self.secrets))(text)

    def build_tracking(self) -> Tracking:
        return (LocalTracking if self.local else ServerTracking)(**self.tracking)  # type: ignore[arg-type]  # `asdict`


class RunEnd:
    """The end of the run, as the exporter reads it from its standard input."""

    def __init__(self, source: TextIO) -> None:
        self.over = Event()
        self.died = True  # until the run's process has said otherwise
        self._source = source
        self._at = 0.0
        Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        with suppress(OSError, ValueError):
            self.died = self._source.readline().strip() != RUN_ENDED
        self._at = time.monotonic()
        self.over.set()

    @property
    def seconds_since(self) -> float:
        return time.monotonic() - self._at if self.over.is_set() else 0.0


class ExportOutcome(NamedTuple):
    """Location of the run in MLflow, and a sentence if something is missing there."""

    link: dict[str, str] | None = None  # uri, experiment_id, run_id
    warning: str | None = None
    view_line: str | None = None  # says how to look at the run


class ExporterLauncher:
    """Exporter process of one run. If `finish` is never called, MLflow shows the run as KILLED."""

    def __init__(
        self, tracking: Tracking | NoTracking, folder: Path, secrets: Iterable[str], kind: ExportKind = EVALUATION
    ) -> None:
        """Start the exporter; with tracking=off there is none."""
        self.tracking, self.folder, self._kind = tracking, folder, kind
        self._process: subprocess.Popen[str] | None = None
        self._problem: str | None = None
        try:
            if (folder / STATE).exists():  # of an earlier session
                reset_state(folder)
            if not isinstance(tracking, NoTracking):
                self._start(tracking, secrets, kind.module)
        except OSError as error:
            self._problem = f"the process that sends the run to MLflow could not be started ({error})"

    @property
    def sync_command(self) -> str:
        return self._kind.format_sync_command(self.folder)

    def _start(self, tracking: Tracking, secrets: Iterable[str], module: str) -> None:
        of_server = (*NETWORK, *_TLS, *_STORAGE) if isinstance(tracking, ServerTracking) else ()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # so Ctrl-C in the terminal does not reach it
            env=build_child_environment(*_OWN, *of_server, **tracking.environment()),
        )
        self._write(ExportRequest.build(tracking, secrets, self.sync_command).to_line())

    def _write(self, line: str, is_last: bool = False) -> None:
        """Write to the exporter's standard input; after the last line it ends."""
        source = self._process.stdin if self._process else None
        if source is None or source.closed:
            return
        with suppress(OSError):  # it has died already; `finish` will report that
            source.write(line)
            source.flush()
        if is_last:
            with suppress(OSError):
                source.close()

    def finish(self, show: Callable[[str], None]) -> ExportOutcome:
        """Report the end of the run, and wait for the exporter; Ctrl-C ends the waiting, not the export."""
        if isinstance(self.tracking, NoTracking):
            return ExportOutcome()
        code = self._wait(self.tracking.wait_seconds, show)
        state, link, problem = read_state(self.folder), read_link(self.folder), self._problem
        if code is None:
            problem = problem or "MLflow does not have the whole run yet"
        elif state is None or code not in (0, 3) or (code and not state.warning):
            why = f"by signal {-code}" if code < 0 else f"with code {code}, see {self.folder / LOG}"
            problem = f"the process that sends the run to MLflow ended {why}"
        warning = state.warning if state else None
        if problem:
            warning = f"{problem}; complete it with: {self.sync_command}"
        return ExportOutcome(link, warning, format_view_line(self.tracking, link))

    def _wait(self, wait_seconds: float, show: Callable[[str], None]) -> int | None:
        """Return the exporter's exit code; None: it was not started, or has not ended."""
        process = self._process
        if process is None:
            return None
        self._write(f"{RUN_ENDED}\n", is_last=True)
        until = time.monotonic() + wait_seconds + _GRACE_SECONDS
        try:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(PATIENT_SECONDS)
            show(f"sending the rest to MLflow … (Ctrl-C: leave it to {self.sync_command})")
            return process.wait(max(0.0, until - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("", is_last=True)
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
