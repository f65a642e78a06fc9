"""Runs as their own process leaves them, and the exporter over them, in this process.

folder = a_run(tmp_path / "run", local, [a_record("q1")])
state = exported(folder, local)                # its state.complete is True
"""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from eval.config.tracking import LocalTracking
from eval.mlflow_export.exporter import EVALUATION, ExportState
from eval.mlflow_export.run_export import RunExport
from eval.mlflow_export.tracked_run import TrackedRun, open_run
from eval.reports.files import write_files
from eval.runs.logs import Log
from eval.runs.record import Record
from eval.runs.store import RunStore
from tests.eval.mlflow_export import records
from tests.eval.stored_run import CONFIG, SESSION, stored_run

_numbers = count()


def own_records(*names: str, **changes: Any) -> list[Record]:
    """Of a run of the test's own: MLflow moves a trace that is sent again to where it was sent last."""
    run_id = f"exported {next(_numbers)}"
    return [records.a_record(name, **{"run_id": run_id, **changes}) for name in names]


def a_run(folder: Path, settings: LocalTracking, kept: Sequence[Record], **meta: Any) -> Path:
    tracking = {"_target_": "eval.config.tracking.LocalTracking", **asdict(settings)}
    config = {**CONFIG, "tracking": tracking}
    facts = {"run_id": kept[0].run_id, "started_at": SESSION["started_at"], "finished": True, "config": config}
    stored_run(folder, kept, **{**facts, **meta})
    with RunStore(folder / "run.db", read_only=True) as store:
        write_files(folder, store)
    return folder


def exported(
    folder: Path,
    settings: LocalTracking,
) -> ExportState:
    """What came of it."""
    log = Log(folder, "mlflow")
    export = RunExport(folder, settings, log)
    with closing(export), closing(log), Path(os.devnull).open("rb") as run_end:
        return export.export(run_end, EVALUATION.format_sync_command(folder))


def in_mlflow(settings: LocalTracking, state: ExportState) -> TrackedRun:
    run = open_run(settings, "any", name="any", start_ms=0)
    return TrackedRun(run.client, run.tracing, state.experiment_id, state.run_id)


def everything(run: TrackedRun) -> dict[str, Any]:
    """All that MLflow shows of a run."""
    traces = run.tracing.search_traces(locations=[run.experiment_id], run_id=run.run_id, max_results=500)
    return {
        "run": run.client.get_run(run.run_id).to_dictionary(),
        "traces": {each.info.trace_id: each.to_dict() for each in traces},
        "files": sorted((each.path, each.file_size) for each in run.client.list_artifacts(run.run_id)),
        "metric history": [
            (each.value, each.timestamp) for each in run.client.get_metric_history(run.run_id, "accuracy")
        ],
    }
