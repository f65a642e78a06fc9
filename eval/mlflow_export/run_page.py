"""The page of a run in MLflow: params, tags, metrics, made from its `RunInfo`, and the summary once there is one.

It can be written any number of times: only what differs from MLflow's page is sent.
"""

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from eval.analysis.summary.summary import Counts, Summary
from eval.mlflow_export.tracked_run import TrackedRun, to_ms, truncate
from eval.runs.run_info import RunInfo

MAX_PARAM_CHARS = 500  # MLflow itself takes 6000
MAX_TAG_CHARS = 5000  # MLflow itself takes 8000
PER_CALL = 100  # MLflow's limit for params and tags; metrics have a higher one
_MAY_VANISH = ("errors_by_class/", "limits/", "attribution/")  # when a run is resumed


@dataclass(frozen=True)
class RunPage:
    """Content of a run's page; empty where nothing is known yet."""

    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)

    @classmethod
    def build(cls, params: Mapping[str, str], tags: Mapping[str, str], metrics: Mapping[str, float]) -> Self:
        """Return a page that MLflow accepts."""
        return cls(
            {_name(name): truncate(text, MAX_PARAM_CHARS) for name, text in params.items() if text},
            {_name(name): truncate(text, MAX_TAG_CHARS) for name, text in tags.items() if text},
            {_name(name): round(value, 6) for name, value in metrics.items()},
        )


def build_page(info: RunInfo, summary: Summary | None, folder_name: str = "") -> RunPage:
    """Build the page of an evaluation; `summary` is None while the run has not ended."""
    tags = {**info.origin, **_list_tags(info, summary), "run_folder": folder_name}
    metrics = dict(flatten_numbers(_select_numbers(summary))) if summary else {}
    return RunPage.build(flatten_params(info), tags, metrics)


def build_run_name(info: RunInfo, folder_name: str) -> str:
    """Return the name given to the run, else system and model before its folder's name; a simulation is marked.

    Lists show little more than its beginning. No two folders of runs have the same name.
    """
    asked = " ".join(filter(None, (info.system, info.model)))
    name = str(info.part("run").get("name") or " · ".join(filter(None, (asked, folder_name))))
    return f"{name} (simulated)" if info.simulated else name


def flatten_params(info: RunInfo) -> dict[str, str]:
    """Return the resolved configuration under dotted names, without model settings if no model of ours is called."""
    return dict(_flatten({**info.config, "model": {"name": "none"}} if info.model == "none" else info.config))


def read_start_ms(info: RunInfo) -> int:
    """Return the start in milliseconds since 1970; now, if it is unknown."""
    return to_ms(info.started_at) if info.started_at else round(time.time() * 1000)


def write_page(run: TrackedRun, page: RunPage) -> None:
    """Send what differs from what MLflow has; a param keeps its first value there."""
    from mlflow.entities import Metric, Param, RunTag

    known = run.client.get_run(run.run_id).data
    params = [Param(name, text) for name, text in page.params.items() if name not in known.params]
    tags = [RunTag(name, text) for name, text in page.tags.items() if known.tags.get(name) != text]
    now = round(time.time() * 1000)  # of two values MLflow shows the later one, or the greater one of the same moment
    gone = [name for name in known.metrics if name.startswith(_MAY_VANISH)] if page.metrics else []
    wanted = {**dict.fromkeys(gone, math.nan), **page.metrics}  # MLflow cannot delete a metric
    metrics = [
        Metric(name, value, now, 0) for name, value in wanted.items() if str(known.metrics.get(name)) != str(value)
    ]
    for start in range(0, max(len(params), len(tags), len(metrics)), PER_CALL):
        part = slice(start, start + PER_CALL)
        run.client.log_batch(run.run_id, metrics=metrics[part], params=params[part], tags=tags[part])


def _list_tags(info: RunInfo, summary: Summary | None) -> dict[str, str]:
    system, model = info.part("system"), info.part("model")
    found = {
        "prompts_sha256": info.prompts_sha256,
        "dataset_sha256": info.task.dataset_sha256,
        "task_version": info.task.task_version,
        "system": str(system.get("name", "")),
        "model": str(info.model or model.get("name", "")),
        "prompts": Path(str(info.config.get("prompts") or "none")).name,
        "tools": ", ".join(sorted(system.get("tools") or {})),
        "harness.command": "" if info.command is None else json.dumps(info.command),
        "harness.rescored_from": info.rescored_from or "",
    }
    if info.has_begun:
        found["simulated"] = json.dumps(info.simulated)
    if info.sweep:
        job, differs = str(info.sweep.job), " ".join(info.sweep.differs)
        found |= {"harness.sweep": info.sweep.id, "harness.sweep_job": job, "harness.sweep_differs": differs}
    if summary is not None:
        notes = [summary.notice, summary.stopped and f"Stopped: {summary.stopped}"]
        found["mlflow.note.content"] = "\n\n".join(each for each in notes if each)  # the description on the run's page
    return found


def _select_numbers(summary: Summary) -> dict[str, Any]:
    """Return the numbers of `summary.json`, with its names; calls, tokens and cost are at the top."""

    def select(counts: Counts) -> dict[str, Any]:
        return {name: getattr(counts, name) for name in ("n", "score", "score_ci95")}

    first = {"accuracy": summary.accuracy, "score": summary.score}  # MLflow's table of runs begins with these
    found = first | summary.to_dict() | asdict(summary.usage) | {"usage": None, "version": None}
    found["by_level"] = {level: select(counts) for level, counts in summary.by_level.items()}
    found["by_tag"] = {
        tag: {value: select(counts) for value, counts in values.items()} for tag, values in summary.by_tag.items()
    }
    found["attribution"] = {each.title: asdict(each.points) for each in summary.attribution or ()}
    found["labels"] = summary.labels and {**asdict(summary.labels), "confusion": None}
    found["scorer_usage"] = asdict(summary.scorer_usage) if summary.scorer_usage.lm_calls else None
    return found


def flatten_numbers(tree: Mapping[str, Any], separator: str = "/", prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of nested dictionaries, an interval as two; MLflow has no null."""
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flatten_numbers(value, separator, f"{name}{separator}")
        elif name.endswith("ci95") and value is not None:
            yield from zip((f"{name}_low", f"{name}_high"), value, strict=True)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield name.removesuffix(f"{separator}value"), float(value)


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves under their dotted path; lists as JSON."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, default=str)


def _name(text: str) -> str:
    """Replace characters that MLflow does not allow in a name, and what makes it an unusual path."""
    parts = re.sub(r"[^\w\-. /]", "_", text, flags=re.ASCII).split("/")
    return "/".join(part for part in parts if part.strip(". "))[:250]
