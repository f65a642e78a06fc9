"""A sweep in MLflow: one parent run, under which its children, ordinary runs, are shown.

    python -m eval.mlflow_export.sweep_page SWEEP_FOLDER      started by eval.workflows.sweep.end, with an
    `ExportRequest` on standard input

The parent is found by its tag, or made by whoever comes first: the exporter of the sweep's first child, or this. Its
last line on standard output is JSON: `link`, or `warning`.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from eval.mlflow_export.pipe import ExportRequest
from eval.mlflow_export.sending import PARENT_TAG, RUN_TAG, TrackedRun, open_run
from eval.runs.run_info import SweepJob

FILES = ("sweep.json", "sweep.md", "multirun.yaml")
_MAX_NOTE_CHARS = 5000  # MLflow itself takes 8000
_FIGURES = ("accuracy", "n_error", "cost_usd", "wall_seconds")
_COMPARED = ("difference", "p", "p_holm", "wins", "losses", "ties")


def build_parent_tags(settings: Any, job: SweepJob | None) -> dict[str, str]:
    """For the run of a sweep's child: its parent in MLflow, which is made if need be. Nothing for other runs.

    Args:
        settings: where MLflow is.
        job: of `RunInfo.sweep`.

    Raises:
        MlflowException, OSError: MLflow cannot be reached or refuses.
    """
    if job is None:
        return {}
    parent = _parent(settings, job.id, job.name, job.started_at, asdict(job))
    if parent.status() == "KILLED":  # between two jobs it was silent for long, or an ended sweep's job is resumed
        parent.begin()
    own = {"harness.sweep_id": job.id, "harness.sweep_job": str(job.job)}
    return {PARENT_TAG: parent.run_id, **own, "harness.sweep_differs": " ".join(job.differs)[:1000]}


def write_sweep(folder: Path, settings: Any, redact: Callable[[str], str]) -> TrackedRun:
    """The parent with its children, figures and files; as often as one likes."""
    sweep = json.loads((folder / FILES[0]).read_text("utf-8"))
    parent = _parent(settings, sweep["id"], folder.name, sweep["started_at"], {})
    for row in sweep["jobs"]:
        _adopt(parent, sweep["id"], row)
    _write_figures(parent, sweep, redact((folder / FILES[1]).read_text("utf-8")))
    for name in FILES:
        if (folder / name).is_file():
            parent.client.log_text(parent.run_id, redact((folder / name).read_text("utf-8")), name)
    whole = all(row["exit_code"] not in (None, 3) for row in sweep["jobs"])
    parent.finish("FINISHED" if whole else "KILLED", _ms(sweep["ended_at"] or sweep["started_at"]))
    return parent


def _parent(settings: Any, sweep_id: str, name: str, started_at: str, facts: Mapping[str, Any]) -> TrackedRun:
    process = {f"harness.{key}": str(facts[key]) for key in ("host", "pid") if key in facts}  # that it is not dead
    tags = {"harness.kind": "sweep", **process}
    # Without traces: there is one in each experiment that a job is in.
    return open_run(settings, sweep_id, name=f"sweep {name}", start_ms=_ms(started_at), tags=tags, has_traces=False)


def _adopt(parent: TrackedRun, sweep_id: str, row: Mapping[str, Any]) -> None:
    """A child whose own exporter could not reach MLflow when it began has no parent yet."""
    if not row["run_id"]:
        return
    tags = {PARENT_TAG: parent.run_id, "harness.sweep_id": sweep_id, "harness.sweep_job": str(row["job"])}
    found = parent.client.search_runs([parent.experiment_id], f"tags.`{RUN_TAG}` = '{row['run_id']}'", max_results=1)
    for child in found:
        for key, value in tags.items():
            if child.data.tags.get(key) != value:
                parent.client.set_tag(child.info.run_id, key, value)


def _write_figures(parent: TrackedRun, sweep: Mapping[str, Any], note: str) -> None:
    figures: dict[str, float | None] = {"jobs": len(sweep["jobs"])}
    for row in sweep["jobs"]:
        figures |= {f"{key}/job_{row['job']}": row[key] for key in _FIGURES}
    for each in sweep["comparisons"]:
        figures |= {f"{key}/job_{each['job']}": each.get(key) for key in _COMPARED}
    best = max((row["accuracy"] for row in sweep["jobs"] if row["accuracy"] is not None), default=None)
    for key, value in {**figures, "best_accuracy": best}.items():
        if value is not None:
            parent.client.log_metric(parent.run_id, key, value)
    parent.client.set_tag(parent.run_id, "simulated", str(sweep["simulated"]).lower())
    parent.client.set_tag(parent.run_id, "mlflow.note.content", note[:_MAX_NOTE_CHARS])


def _ms(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def main(arguments: Sequence[str], source: TextIO) -> int:
    """Exit codes: 0 it is in MLflow · 3 not, or not all of it."""
    handover = ExportRequest(**json.loads(source.readline()))
    try:
        told: dict[str, Any] = {"link": write_sweep(Path(arguments[0]), handover.settings(), handover.redact).link}
    except Exception as error:  # noqa: BLE001 - the boundary of a process that has nobody to raise to
        lines = str(error).strip().splitlines() or ["no message"]
        told = {"warning": handover.redact(f"{type(error).__name__}: {lines[0][:300]}")}
    print(json.dumps(told), flush=True)
    return 3 if "warning" in told else 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:], sys.stdin))
