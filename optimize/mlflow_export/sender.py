"""The process that brings a tuning run into MLflow while it goes on: it reads the folder, and nobody waits for it.

    python -m optimize.mlflow_export.sender FOLDER            started by optimize.pipeline.tuning

Its standard input is its tie to the run (`eval.mlflow_export.exporter_launcher`): where MLflow is and what is secret,
then the word that
the run is over, or nothing more when the run's process has died. Its log is `logs/mlflow.log`, and what came of it is
in `mlflow.json`.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eval.mlflow_export.exporter_process import follow, in_words
from eval.mlflow_export.pipe import ExportRequest, RunEnd

POLL_SECONDS = 2.0
BEAT_SECONDS = 10.0  # at most, without a word to MLflow that the run is alive
MAX_PAUSE_SECONDS = 30.0  # between attempts with an MLflow that fails, while the run goes on
LAST_ATTEMPTS = 3  # once the run is over
_NICENESS = 19  # the run comes first


class Sender:
    """Follows one session of a tuning run to its end. Raises nothing of MLflow's."""

    def __init__(self, folder: Path, handover: ExportRequest, end: RunEnd, log: Any, process: dict[str, str]) -> None:
        """`process`: of the run (`live_process`)."""
        self.folder, self.handover, self.end, self.log, self.process = folder, handover, end, log, process
        self.settings = handover.settings()
        self._told_at = 0.0
        self._stamp: Any = None
        self._sent: Any = None  # the last SentTuning
        self._failures = 0
        self._failure = ""

    def run(self) -> bool:
        """Until the run is over.

        Returns:
            Whether MLflow has everything.
        """
        while not self.end.over.is_set():
            self._follow()
            self.end.over.wait(min(POLL_SECONDS * 2 ** min(self._failures, 10), MAX_PAUSE_SECONDS))
        if self.end.died:
            self.log.warning("the tuning run's process has died")
        return self._complete()

    def _follow(self) -> None:
        """Send what is new; what is not whole yet, or is refused, comes with a later attempt."""
        from optimize.mlflow_export.folder import read_file_states

        now = read_file_states(self.folder)
        if now != self._stamp:
            if self._send(self.process):
                if self._stamp is None:
                    self._persevere(self._close_dead)
                self._stamp = now
        elif time.monotonic() - self._told_at >= BEAT_SECONDS:
            self._persevere(self._beat)

    def _beat(self) -> None:
        from optimize.mlflow_export.send import show_alive

        show_alive(self.settings, self._sent, self.process)

    def _close_dead(self) -> None:
        from optimize.mlflow_export.send import close_dead

        if closed := close_dead(self.settings, self._sent):
            self.log.warning("runs closed whose processes had died", mlflow_runs=closed)

    def _complete(self) -> bool:
        until = time.monotonic() + float(self.settings.wait_seconds)
        for attempt in range(LAST_ATTEMPTS):
            if attempt:
                time.sleep(min(2.0**attempt, max(0.0, until - time.monotonic())))
            if self._send(None):
                return True
            if time.monotonic() > until:
                break
        self._give_up()
        return False

    def _send(self, process: dict[str, str] | None) -> bool:
        """Whether MLflow has it now; `process`: None if the run is over."""
        from eval.runs.mlflow_state import write_state
        from optimize.mlflow_export.send import send, state_of

        def sending() -> None:
            self._sent = sent = send(self.folder, self.settings, redact=self.handover.redact, process=process)
            write_state(self.folder, state_of(sent, self.settings))
            self.log.info("sent", status=sent.status, proposals=len(sent.proposals), children=len(sent.children))

        return self._persevere(sending) and (process is not None or self._sent.complete)

    def _persevere(self, step: Callable[[], None]) -> bool:
        """Whether it was done; whatever MLflow raises, the run goes on without it."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - see above
            self._failures += 1
            self._failure = self.handover.redact(in_words(error))
            self.log.warning("MLflow did not take it", error=self._failure)
            return False
        self._failures, self._told_at = 0, time.monotonic()
        return True

    def _give_up(self) -> None:
        from dataclasses import replace

        from eval.runs.mlflow_state import ExportState, read_state, write_state
        from optimize.mlflow_export.send import beside

        why = f"MLflow does not have all of the tuning run ({self._failure or 'proposals are missing there'})"
        warning = f"{why}; complete it with: {sync_command(self.folder)}"
        state = read_state(self.folder) or ExportState(self.settings.shown_uri, beside(self.settings).experiment)
        write_state(self.folder, replace(state, complete=False, warning=warning))


def sync_command(folder: Path) -> str:
    import shlex

    from eval.cli.paths import OUTPUTS, shown

    name = folder.name if folder.parent == OUTPUTS / "optimize" else shown(folder)
    return f"python optimize/sync.py {shlex.quote(name)}"


def sent(folder: Path, handover: ExportRequest, end: RunEnd, log: Any) -> bool:
    """Whether MLflow has everything."""
    from optimize.mlflow_export.send import live_process

    return Sender(folder, handover, end, log, live_process(os.getppid())).run()


if __name__ == "__main__":
    os.nice(_NICENESS)
    os._exit(follow("sender", sys.argv[1:], sys.stdin, sent))
