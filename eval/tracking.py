"""A finished run in MLflow: one MLflow run with its parameters, metrics, tags and files, written once at the end.

The run's folder is the truth; MLflow is a view of it, so MLflow's failure is a warning and never the run's.
Only `MlflowClient` is used, and no global state of MLflow (active run, tracking URI) is touched.

    link, warning = export_run(LocalTracking(), folder, summary, {"run": {"epochs": 1}}, {"system": "gaia"})
    link      # {"uri": "sqlite:////…/outputs/mlflow.db", "experiment_id": "1", "run_id": "0f3a…"}
"""

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from eval.paths import OUTPUTS, PROJECT_ROOT
from eval.reporting.files import write_summary

MAX_PARAM_CHARS = 500  # MLflow itself refuses more than 6000
_PARAMS_PER_CALL = 100  # MLflow's limit
_ARTIFACTS = (
    "summary.json",
    "answers.jsonl",
    "records.jsonl",
    "run.db",
    "config.yaml",
    "correlation_ids.jsonl",
    "logs",
)
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else an import in MLflow waits for the network
    "MLFLOW_ASYNC_TRACE_LOGGING_MAX_QUEUE_SIZE": "200000",
}


@dataclass
class LocalTracking:
    """An MLflow store in SQLite, with its artifacts in a folder beside it."""

    experiment: str = "mas-harness"
    folder: str | None = None  # of mlflow.db and mlflow-artifacts; None = outputs/; relative = to the project's root


@dataclass
class NoTracking:
    """Nothing goes to MLflow."""


class Exported(NamedTuple):
    """Where the run is in MLflow, or a sentence why it is not there; both None when tracking is off."""

    link: dict[str, str] | None = None  # uri, experiment_id, run_id
    warning: str | None = None


def export_run(
    config: LocalTracking | NoTracking,
    run_folder: Path,
    summary: Mapping[str, Any],
    params: Mapping[str, Any],
    tags: Mapping[str, str] | None = None,
) -> Exported:
    """Write one MLflow run; nothing that goes wrong in MLflow raises.

    `params` is the resolved configuration, nested as it is. `tags` (dataset, model, system, prompts …) join the tag
    `simulated`. Files that the run's folder does not have are left out.
    """
    if isinstance(config, NoTracking):
        return Exported()
    try:
        return Exported(_export(config, run_folder, summary, params, tags or {}))
    except Exception as error:  # noqa: BLE001 - the run is finished and saved; whatever MLflow raises must not undo it
        cause = str(error).strip().splitlines() or ["no message"]
        return Exported(
            warning=f"the run was not written to MLflow ({type(error).__name__}: {cause[0]}); its results are complete "
            f"in its own folder; free or mend the MLflow store, or switch it off with tracking=off"
        )


def _export(
    config: LocalTracking,
    run_folder: Path,
    summary: Mapping[str, Any],
    params: Mapping[str, Any],
    tags: Mapping[str, str],
) -> dict[str, str]:
    folder = PROJECT_ROOT / config.folder if config.folder else OUTPUTS
    folder.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    client = _client(uri)
    experiment_id = _experiment_id(client, config.experiment, folder / "mlflow-artifacts")
    run_id = _start_run(client, experiment_id, summary, tags)
    link = {"uri": uri, "experiment_id": experiment_id, "run_id": run_id}
    try:
        write_summary(run_folder, {**summary, "mlflow": link})  # so that the copy in MLflow names its run as well
        _log(client, run_id, run_folder, summary, params)
    except BaseException:
        client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id, "KILLED" if summary["stopped"] else "FINISHED")
    return link


def _client(uri: str) -> Any:
    os.environ.update(_ENVIRONMENT)  # MLflow reads it while it is imported
    from mlflow import MlflowClient

    for noisy in ("mlflow", "alembic"):  # how they make their tables is not news; the import has set levels of its own
        logging.getLogger(noisy).setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=uri)


def _experiment_id(client: Any, name: str, artifacts: Path) -> str:
    """Made explicitly: MLflow's own default puts artifacts into the folder the command happened to start in."""
    found = client.get_experiment_by_name(name)
    return str(found.experiment_id if found else client.create_experiment(name, artifacts.as_uri()))


def _start_run(client: Any, experiment_id: str, summary: Mapping[str, Any], tags: Mapping[str, str]) -> str:
    started = time.time() - summary["wall_seconds"]
    all_tags = {**tags, "simulated": str(summary["simulated"]).lower()}
    if summary["notice"]:
        all_tags["mlflow.note.content"] = summary["notice"]  # the description on the run's page
    run = client.create_run(
        experiment_id, start_time=int(started * 1000), tags=all_tags, run_name=str(summary["run_id"])
    )
    return str(run.info.run_id)


def _log(client: Any, run_id: str, run_folder: Path, summary: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    metrics = [Metric(name, value, now, 0) for name, value in _metrics(summary).items()]
    client.log_batch(run_id, metrics=metrics)
    flat = [Param(_name(key), text[:MAX_PARAM_CHARS]) for key, text in _flattened(params)]
    for start in range(0, len(flat), _PARAMS_PER_CALL):
        client.log_batch(run_id, params=flat[start : start + _PARAMS_PER_CALL])
    for artifact in _ARTIFACTS:
        if (run_folder / artifact).exists():
            client.log_artifact(run_id, str(run_folder / artifact))


def _metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    """The summary's numbers, without the unknown ones: MLflow has no null."""
    low, high = summary["accuracy_ci95"] or (None, None)
    keys = ("accuracy", "n", "n_correct", "n_scored", "n_error", "n_unscored", "format_loss", "wall_seconds")
    found: dict[str, float | None] = {
        **{key: summary[key] for key in keys},
        "mean_score": summary.get("mean_score"),
        "accuracy_ci95_low": low,
        "accuracy_ci95_high": high,
        **summary["usage"],
        **{_name(f"accuracy_level_{level}"): counts["accuracy"] for level, counts in summary["by_level"].items()},
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _flattened(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Leaves under their dotted path; lists as JSON."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, default=str)


def _name(text: str) -> str:
    """MLflow allows only these characters in a name."""
    return re.sub(r"[^\w\-. /]", "_", text)
