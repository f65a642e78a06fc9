"""Export of a sweep to MLflow: one parent run, under which its children, ordinary runs, are shown.

    python -m eval.mlflow_export.sweep_export SWEEP_FOLDER      started by ExporterLauncher when the sweep has ended

The parent is found by its tag, or created by the process that comes first: the exporter of a child, or this one.
"""

import json
from dataclasses import replace
from typing import Any

from eval.config.tracking import Tracking
from eval.mlflow_export.exporter_process import Export, run_exporter
from eval.mlflow_export.tracked_run import PARENT_TAG, RUN_TAG, TrackedRun, open_run, to_ms
from eval.mlflow_export.values import truncate
from eval.runs.run_info import SweepJob

JsonObject = dict[str, Any]

SWEEP_FILE, TABLE_FILE = "sweep.json", "sweep.md"
FILES = (SWEEP_FILE, TABLE_FILE, "multirun.yaml")
_MAX_NOTE_CHARS = 5000  # MLflow itself takes 8000
_FIGURES = ("accuracy", "n_error", "cost_usd", "wall_seconds")
_COMPARED = ("difference", "p", "p_holm", "wins", "losses", "ties")


def build_parent_tags(settings: Tracking, job: SweepJob | None) -> dict[str, str]:
    """Return the tags that put the run of a sweep's child under its parent, created if need be; none for other runs.

    Args:
        settings: of MLflow.
        job: of `RunInfo.sweep`.

    Raises:
        MlflowException, OSError: MLflow cannot be reached or refuses.
    """
    if job is None:
        return {}
    parent = _open_parent(settings, job.id, job.name, job.started_at)
    own = {"harness.sweep_id": job.id, "harness.sweep_job": str(job.job)}
    return {PARENT_TAG: parent.run_id, **own, "harness.sweep_differs": " ".join(job.differs)[:1000]}


def _open_parent(settings: Tracking, sweep_id: str, name: str, started_at: str) -> TrackedRun:
    tags = {"harness.kind": "sweep"}
    # Without traces: there is one in each experiment that a job is in.
    return open_run(settings, sweep_id, name=f"sweep {name}", start_ms=to_ms(started_at), tags=tags, has_traces=False)


class SweepExport(Export):
    """The parent with its children, figures and files."""

    def open_run(self) -> TrackedRun:
        sweep = self._read_sweep()
        return _open_parent(self.settings, sweep["id"], self.folder.name, sweep["started_at"])

    def _read_sweep(self) -> JsonObject:
        sweep: JsonObject = json.loads((self.folder / SWEEP_FILE).read_text("utf-8"))
        return sweep

    def end(self) -> None:
        sweep, run = self._read_sweep(), self.run
        for row in sweep["jobs"]:
            if row["run_id"]:
                self._adopt(sweep["id"], row["run_id"], row["job"])
        self._write_figures(sweep)
        for name in FILES:
            if (self.folder / name).is_file():
                run.client.log_text(run.run_id, self._read(name), name)
        whole = all(row["exit_code"] not in (None, 3) for row in sweep["jobs"])
        status = "FINISHED" if whole else "KILLED"
        run.finish(status, to_ms(sweep["ended_at"] or sweep["started_at"]))
        self.state = replace(self.state, status=status)

    def _read(self, name: str) -> str:
        return self.redact((self.folder / name).read_text("utf-8"))

    def _adopt(self, sweep_id: str, run_id: str, job: int) -> None:
        """Put a child under its parent. One whose exporter could not reach MLflow when it began has no parent yet."""
        parent = self.run
        tags = {PARENT_TAG: parent.run_id, "harness.sweep_id": sweep_id, "harness.sweep_job": str(job)}
        for child in parent.client.search_runs([parent.experiment_id], f"tags.`{RUN_TAG}` = '{run_id}'", max_results=1):
            for key, value in tags.items():
                if child.data.tags.get(key) != value:
                    parent.client.set_tag(child.info.run_id, key, value)

    def _write_figures(self, sweep: JsonObject) -> None:
        client, run_id = self.run.client, self.run.run_id
        figures: dict[str, float | None] = {"jobs": len(sweep["jobs"])}
        for row in sweep["jobs"]:
            figures |= {f"{key}/job_{row['job']}": row[key] for key in _FIGURES}
        for each in sweep["comparisons"]:
            figures |= {f"{key}/job_{each['job']}": each.get(key) for key in _COMPARED}
        best = max((row["accuracy"] for row in sweep["jobs"] if row["accuracy"] is not None), default=None)
        for key, value in {**figures, "best_accuracy": best}.items():
            if value is not None:
                client.log_metric(run_id, key, value)
        client.set_tag(run_id, "simulated", str(sweep["simulated"]).lower())
        client.set_tag(run_id, "mlflow.note.content", truncate(self._read(TABLE_FILE), _MAX_NOTE_CHARS))


if __name__ == "__main__":
    run_exporter(SweepExport, live=False)
