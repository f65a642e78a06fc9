"""The exporter of a run to MLflow: a process of its own while the run goes on, and `sync` on a run that has ended.

    python -m eval.mlflow_export FOLDER        # started by ExporterLauncher

It follows the run's store and sends what is new. What that is depends on the kind of the run: each has an `Export`.
"""

import select
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import IO

from eval.config.tracking import Tracking
from eval.mlflow_export.tracked_run import COMPLETE, TrackedRun
from eval.runs.folder import DATABASE
from eval.runs.logs import Log
from eval.runs.mlflow_state import ExportState, write_state
from eval.runs.store import RunStore
from mas.runtime.errors import UserError, walk_chain

POLL_SECONDS = 1.0
PAUSE_SECONDS = 10.0  # after a failure while the run goes on
ATTEMPTS = 3  # once the run is over
_UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "NewConnectionError")  # of requests and urllib3

Redact = Callable[[str], str]
Counts = dict[str, dict[str, int]]  # "traces" … → {"store": 64, "mlflow": 63}


class Export(ABC):
    """What a kind of run sends of its store. Each step may fail and be repeated; none changes the run."""

    def __init__(self, folder: Path, settings: Tracking, redact: Redact) -> None:
        """Open the run's store, in which its process may be writing; `redact` takes secrets out of a text."""
        self.folder, self.settings, self.redact = folder, settings, redact
        self.store = RunStore(folder / DATABASE, read_only=True)
        self.state = ExportState(uri=settings.address(), experiment=settings.experiment)
        self.sent = Counter[str]()  # by this process: "traces", …
        self.refusal = ""  # why MLflow did not accept a record, while it accepted others
        self._is_live = self._is_shown = False
        self._failure = ""  # of the last step, as a sentence

    @abstractmethod
    def open_run(self) -> TrackedRun:
        """Find or create the run in MLflow; raise UserError if it is not to be sent."""

    @abstractmethod
    def show(self) -> None:
        """Show the settings of the running run."""

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

    @property
    def is_open(self) -> bool:
        return bool(self.state.run_id)

    def send_files(self, *names: str) -> None:
        """Send the files and folders of the run's that exist."""
        for path in (self.folder / name for name in names):
            if path.exists():
                self.run.client.log_artifact(self.run.run_id, str(path))

    def close(self) -> None:
        self.store.close()

    def export(self, run_end: IO[bytes] | None, log: Log, sync_command: str = "") -> ExportState:
        """Send until the run is over and everything is sent, or MLflow has failed; return what `mlflow.json` has then.

        Args:
            run_end: its end is the end of the run, which MLflow shows as running until then; None: the run is over.
            log: of this process.
            sync_command: completes what this process leaves undone.

        Raises:
            UserError: a mistake of the user, if the run was over.
        """
        self._log, self._is_live = log, run_end is not None
        pause = 0.0
        while run_end and not select.select([run_end], [], [], pause)[0]:
            pause = POLL_SECONDS if self._try(self._follow) else PAUSE_SECONDS
        n_left = ATTEMPTS
        while not (is_done := self._try(self._complete)) and (n_left := n_left - 1):
            time.sleep(POLL_SECONDS)
        reason = self._failure or self.refusal
        # If it is not done, MLflow gets at least the run's status, and what can be said of its answers.
        is_reached = is_done or (self.is_open and any([self._try(self.end), self._try(self._count)]))
        missing, warning = self._describe_shortfall(), None
        if not is_done or missing or self.refusal:
            has = (missing or "not everything of this run") if self.is_open else "nothing of this run"
            warning = f"MLflow has {has}{f' ({reason})' if reason else ''}; complete it with: {sync_command}"
        if is_reached:
            self._try(lambda: self.run.mark(warning or COMPLETE))
        self.state = replace(self.state, complete=warning is None, warning=warning)
        log.write("info", "export ended", complete=self.state.complete, counts=self.state.counts)
        write_state(self.folder, self.state)
        return self.state

    def _follow(self) -> None:
        """Bring MLflow up to what the store has now."""
        run = self.run
        if self._is_live and not self._is_shown:
            run.client.update_run(run.run_id, status="RUNNING")  # also one that had ended
            write_state(self.folder, self.state)
            self._is_shown = True
            self._try(self.show)  # what is only shown must not keep the records from being sent
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
            self._log.write("warning", "MLflow did not accept it", error=self._failure)
            return False
        self._failure = ""
        return True

    def describe_failure(self, error: BaseException) -> str:
        """Shorten an error to one line; network libraries write half a screen about a server that is down."""
        if any(type(each).__name__ in _UNREACHABLE for each in walk_chain(error, contexts=True)):
            return f"{self.state.uri} cannot be reached"
        lines = str(error).strip().splitlines() or ["no message"]
        return self.redact(f"{type(error).__name__}: {lines[0][:200]}")

    def _describe_shortfall(self) -> str:
        """Return the counts that differ, such as `63 of 64 traces`; empty if none does."""
        counts = [(name, each["mlflow"], each["store"]) for name, each in self.state.counts.items()]
        return ", ".join(f"{there} of {stored} {name}" for name, there, stored in counts if there != stored)
