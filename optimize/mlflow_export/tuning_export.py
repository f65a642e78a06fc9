"""Export of a tuning run from its folder to MLflow; sending it again changes nothing, or adds what is new.

    python -m optimize.mlflow_export.tuning_export FOLDER      started by ExporterLauncher

Tuning runs have an experiment of their own: their proposals have no test results, and would bury the evaluations.

A run with a verdict, whatever that is, is FINISHED there; one that stopped before is KILLED, and RUNNING once resumed.
"""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from eval.config.tracking import Tracking
from eval.mlflow_export.exporter_launcher import ExportKind
from eval.mlflow_export.exporter_process import Counts, Export, Redact, run_exporter
from eval.mlflow_export.prompt_registry import name_owner, register_prompts
from eval.mlflow_export.run_page import write_page
from eval.mlflow_export.tracked_run import TrackedRun, open_run
from eval.runs.folder import FACTS, REPORT
from mas.runtime.errors import UserError
from optimize.mlflow_export.page import KIND, KIND_TAG, build_files, build_tuning_page, find_children, send_candidates
from optimize.session.tuning_store import TuningSnapshot, read_tuning

TUNING = ExportKind("optimize.mlflow_export.tuning_export", "optimize/sync.py", "optimize")
EXPERIMENT_SUFFIX = "-tuning"  # after `tracking.experiment`


class TuningExport(Export):
    """The run with its proposals as children. One process at a time."""

    def __init__(self, folder: Path, settings: Tracking, redact: Redact) -> None:
        """`settings`: of MLflow, for evaluations."""
        super().__init__(folder, replace(settings, experiment=settings.experiment + EXPERIMENT_SUFFIX), redact)
        self._candidates: dict[str, object] = {}  # as they were sent
        self._file_states: object = None  # of the folder, when it was sent last
        self._files: dict[str, str] = {}  # as they were sent

    def open_run(self) -> TrackedRun:
        tuning = read_tuning(self.folder)
        return open_run(
            *(self.settings, tuning.info.run_id),
            name=tuning.name,
            start_ms=tuning.start_ms,
            tags={KIND_TAG: KIND},
            has_traces=False,  # sent to two experiments, it is in both
        )

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
        send_candidates(self.run, tuning, self._candidates)
        for name, text in build_files(tuning).items():
            if self._files.get(name) != text:
                self.run.client.log_text(self.run.run_id, self.redact(text), name)
                self._files[name] = text
        return tuning

    def end(self) -> None:
        tuning = self._send()
        self._register_published(tuning)
        status = "FINISHED" if tuning.verdict else "KILLED"
        self.run.finish(status, tuning.end_ms)
        self.state = replace(self.state, status=status)

    def _register_published(self, tuning: TuningSnapshot) -> None:
        """Register the published set; not of a run from elsewhere, nor one whose winner was edited."""
        if not (tuning.published and tuning.winner and tuning.is_own):
            return
        with suppress(UserError):  # somebody has changed the prompts
            prompts = replace(tuning.get_prompts(tuning.winner), name=tuning.task.name)
            register_prompts(self.run, name_owner(prompts, tuning.info.part("system")), is_now=True)

    def count(self) -> Counts:
        wanted = {each.candidate_id for each in read_tuning(self.folder).proposals}
        return {"proposals": {"store": len(wanted), "mlflow": len(wanted & find_children(self.run).keys())}}

    def describe_sent(self) -> str:
        counts = self.state.counts.get("proposals", {"store": 0, "mlflow": 0})
        return f"{self.state.status}, {counts['mlflow']} of {counts['store']} proposals in {self.settings.address()}"


if __name__ == "__main__":
    run_exporter(TuningExport)
