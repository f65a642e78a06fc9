"""Export of a tuning run from its folder to MLflow; sending it again changes nothing, or adds what is new.

    python -m optimize.mlflow_export.tuning_export FOLDER      started by ExporterLauncher

Tuning runs have an experiment of their own: their proposals have no test results, and would bury the evaluations.

| Status   | Of the run                                                                          |
|----------|-------------------------------------------------------------------------------------|
| RUNNING  | its process reports that it goes on                                                 |
| FINISHED | it has a verdict, whatever that is                                                  |
| KILLED   | it stopped before; resumed, it is RUNNING again                                     |
"""

import os
import socket
from dataclasses import replace
from pathlib import Path

from eval.config.tracking import Tracking
from eval.mlflow_export.exporter_launcher import ExportKind
from eval.mlflow_export.exporter_process import Counts, Export, Redact, run_exporter
from eval.mlflow_export.run_page import write_page
from eval.mlflow_export.tracked_run import HOST_TAG, PID_TAG, TrackedRun, open_run
from eval.runs.folder import FACTS, REPORT
from optimize.mlflow_export.candidates import send_candidates
from optimize.mlflow_export.champion import promote_champion
from optimize.mlflow_export.page import KIND, KIND_TAG, TUNING_TAG, build_files, build_tuning_page
from optimize.session.tuning_store import TuningSnapshot, read_tuning

TUNING = ExportKind("optimize.mlflow_export.tuning_export", "optimize/sync.py", "optimize")
EXPERIMENT_SUFFIX = "-tuning"  # after `tracking.experiment`


class TuningExport(Export):
    """The run with its proposals as children. One process at a time."""

    def __init__(self, folder: Path, settings: Tracking, redact: Redact, pid: int | None = None) -> None:
        """
        Args:
            folder: of the tuning run.
            settings: of MLflow, for evaluations.
            redact: takes secrets out of a text.
            pid: process of the run that goes on; None: it has ended, or died.
        """
        super().__init__(folder, replace(settings, experiment=settings.experiment + EXPERIMENT_SUFFIX), redact)
        self.process = {HOST_TAG: socket.gethostname(), PID_TAG: str(pid)} if pid else {}
        self.children: dict[str, str] = {}  # candidate → MLflow's run id
        self.proposals: set[str] = set()  # candidates that the folder has
        self._file_states: object = None  # of the folder, when it was sent last
        self._files: dict[str, str] = {}  # as they were sent

    def open_run(self) -> TrackedRun:
        tuning = read_tuning(self.folder)
        own = {name: text for name, text in tuning.info.origin.items() if name in (HOST_TAG, PID_TAG)}
        return open_run(
            *(self.settings, tuning.info.run_id),
            name=tuning.name,
            start_ms=tuning.start_ms,
            tags={TUNING_TAG: tuning.info.run_id, KIND_TAG: KIND, **own, **self.process},
            has_traces=False,  # sent to two experiments, it is in both
        )

    def begin(self) -> None:
        known = self.run.client.get_run(self.run.run_id).data.tags
        for name, text in self.process.items():
            if known.get(name) != text:  # another process has resumed the run
                self.run.client.set_tag(self.run.run_id, name, text)
        super().begin()

    def send_new(self) -> int:
        """Send everything if a file has been written since; a file that is being written comes with the next call."""
        places = [each for name in (FACTS, REPORT) if (each := self.folder / name).exists()]
        states = [(each.stat().st_mtime_ns, each.stat().st_size) for each in places]
        if states != self._file_states:
            self._send()
            self._file_states = states
        return 0

    def _send(self) -> TuningSnapshot:
        tuning = read_tuning(self.folder)
        write_page(self.run, build_tuning_page(tuning))
        self.children = send_candidates(self.run, tuning)
        self.proposals = {each.candidate_id for each in tuning.proposals}
        for name, text in build_files(tuning).items():
            if self._files.get(name) != text:
                self.run.client.log_text(self.run.run_id, self.redact(text), name)
                self._files[name] = text
        return tuning

    def end(self) -> None:
        tuning = self._send()
        promote_champion(self.run, tuning)
        self._close_run(tuning)

    def close_run(self) -> None:
        self._close_run(read_tuning(self.folder))

    def _close_run(self, tuning: TuningSnapshot) -> None:
        status = "FINISHED" if tuning.verdict else "KILLED"
        if status == "FINISHED" or self.run.status() != status:  # the process that found it dead closed it then
            self.run.finish(status, tuning.end_ms)
        self.state = replace(self.state, status=status)

    def count(self) -> Counts:
        return {"proposals": {"store": len(self.proposals), "mlflow": len(self.proposals & self.children.keys())}}

    count_sent = count

    def describe_sent(self) -> str:
        (counts,) = self.count().values()
        return f"{self.state.status}, {counts['mlflow']} of {counts['store']} proposals in {self.settings.address()}"


if __name__ == "__main__":
    run_exporter(lambda folder, settings, redact: TuningExport(folder, settings, redact, pid=os.getppid()))
