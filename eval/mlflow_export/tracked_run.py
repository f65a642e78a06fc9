"""A run in MLflow: find or create it, write its page, send traces to it, and count what it has.

Sending the same again changes nothing. Whatever MLflow raises goes on to the caller (`mlflow.MlflowException`, mostly),
who may call again: nothing is kept here that a failed call would spoil.
"""

import json
import logging
import math
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from eval.config.tracking import LocalTracking, Tracking
from eval.runs.run_info import RunInfo
from mas.runtime.errors import UserError

if TYPE_CHECKING:  # MLflow is heavy, and reads its environment when it is imported: see `connect`
    from mlflow import MlflowClient
    from mlflow.entities import Trace
    from mlflow.tracing.client import TracingClient

RUN_TAG = "harness.run_id"
IN_MLFLOW_TAG = "harness.in_mlflow"
COMPLETE = "complete"  # else the tag says what is missing
PARENT_TAG = "mlflow.parentRunId"
NOTE_TAG = "mlflow.note.content"  # the description on the run's page
MAX_RESULTS = 50_000  # of a search, MLflow's limit; of traces it is 500
_PAGE_TRACES = 500
_LOCK_SECONDS = 60.0  # for another process that creates MLflow's tables
_MAX_PARAM_CHARS, _MAX_TAG_CHARS = 500, 5000  # MLflow itself takes 6000 and 8000
_PER_CALL = 100  # MLflow's limit for params and tags; metrics have a higher one
_MAY_VANISH = ("errors_by_class/", "limits/", "attribution/")  # metrics, when a run is resumed


def connect(settings: Tracking) -> "tuple[MlflowClient, TracingClient]":
    """Return MLflow's clients of runs and of traces. Sets the process's environment, which MLflow reads everywhere."""
    os.environ.update(settings.environment())
    from mlflow import MlflowClient
    from mlflow.tracing.client import TracingClient

    for noisy in ("mlflow", "alembic"):  # they log that they create tables; the import has set levels of its own
        logging.getLogger(noisy).setLevel(logging.WARNING)
    uri = settings.address()
    return MlflowClient(tracking_uri=uri, registry_uri=uri), TracingClient(uri)


def open_run(
    settings: Tracking, run_id: str, *, name: str, start_ms: int, tags: Mapping[str, str] | None = None
) -> "TrackedRun":
    """Return the run with this id of ours in the settings' experiment; its status stays as it is.

    Both are created if MLflow does not have them, the run with a name, its start (ms since 1970), and tags. UserError:
    the experiment is in MLflow's bin.
    """
    lock: Any = nullcontext()
    if isinstance(settings, LocalTracking):  # two processes that create MLflow's tables in one file break both
        from filelock import FileLock

        settings.path().mkdir(parents=True, exist_ok=True)
        lock = FileLock(settings.path() / "mlflow.db.lock", timeout=_LOCK_SECONDS)
    with lock:
        client, tracing = connect(settings)
        experiment_id = _get_experiment_id(client, settings)
        found = client.search_runs([experiment_id], f"tags.`{RUN_TAG}` = '{run_id}'", max_results=1)
        run = found[0] if found else client.create_run(experiment_id, start_ms, {**(tags or {}), RUN_TAG: run_id}, name)
    return TrackedRun(client, tracing, experiment_id, str(run.info.run_id))


def _get_experiment_id(client: "MlflowClient", settings: Tracking) -> str:
    name = settings.experiment
    if (found := client.get_experiment_by_name(name)) is None:
        return str(client.create_experiment(name, settings.artifact_location()))
    if found.lifecycle_stage == "deleted":
        raise UserError(
            f"the MLflow experiment {name} has been deleted; restore it (mlflow experiments restore -x "
            f"{found.experiment_id}), or name another with tracking.experiment=…"
        )
    return str(found.experiment_id)


@dataclass(frozen=True)
class TrackedRun:
    """One run in MLflow. One writer at a time."""

    client: "MlflowClient"
    tracing: "TracingClient"
    experiment_id: str
    run_id: str  # MLflow's

    def mark(self, text: str) -> None:
        """Say on the run's page whether all of the run is there."""
        self.client.set_tag(self.run_id, IN_MLFLOW_TAG, clean_text(text))

    def write_page(self, params: Mapping[str, str], tags: Mapping[str, str], metrics: Mapping[str, float]) -> None:
        """Send what is not empty and differs from what MLflow has; a param keeps its first value there."""
        from mlflow.entities import Metric, Param, RunTag

        known = self.client.get_run(self.run_id).data
        own_params = {_name(name): truncate(text, _MAX_PARAM_CHARS) for name, text in params.items() if text}
        own_tags = {_name(name): truncate(text, _MAX_TAG_CHARS) for name, text in tags.items() if text}
        new_params = [Param(name, text) for name, text in own_params.items() if name not in known.params]
        new_tags = [RunTag(name, text) for name, text in own_tags.items() if known.tags.get(name) != text]
        gone = [name for name in known.metrics if name.startswith(_MAY_VANISH)] if metrics else []
        wanted = dict.fromkeys(gone, math.nan)  # MLflow cannot delete a metric
        wanted |= {_name(name): round(value, 6) for name, value in metrics.items()}
        now = round(time.time() * 1000)  # of two values it shows the later one, or the greater one of the same moment
        changed = [name for name, value in wanted.items() if str(known.metrics.get(name)) != str(value)]
        new_metrics = [Metric(name, wanted[name], now, 0) for name in changed]
        for start in range(0, max(len(new_params), len(new_tags), len(new_metrics)), _PER_CALL):
            part = slice(start, start + _PER_CALL)
            self.client.log_batch(self.run_id, metrics=new_metrics[part], params=new_params[part], tags=new_tags[part])

    def send(self, traces: "Sequence[Trace]") -> Counter[str]:
        """Send traces, in one call for their spans."""
        for trace in traces:
            self.tracing.start_trace(trace.info)  # first: after log_spans it would have to merge into what is there
        spans = [span for trace in traces for span in trace.data.spans]
        if spans:
            self.tracing.log_spans(self.experiment_id, spans)
        return Counter(traces=len(traces), spans=len(spans))

    def count(self) -> Counter[str]:
        """Count inside of MLflow's database, as its own charts do, so that no trace is fetched."""
        return Counter(traces=self._sum("TRACES", "trace_count"), spans=self._sum("SPANS", "span_count"))

    def _sum(self, view: str, metric: str) -> int:
        from mlflow.entities.trace_metrics import AggregationType, MetricAggregation, MetricViewType

        points = self.tracing.store.query_trace_metrics(
            experiment_ids=[self.experiment_id],
            view_type=MetricViewType(view),
            metric_name=metric,
            aggregations=[MetricAggregation(AggregationType.COUNT)],
            filters=[f"trace.metadata.`mlflow.sourceRun` = '{self.run_id}'"],
        )
        return round(sum(sum(point.values.values()) for point in points))

    def read_trace_ids(self) -> set[str]:
        """Return the ids of the traces that MLflow has of the run, with all their spans or not."""
        ids, token = set[str](), None
        while True:
            page = self.tracing.search_traces(
                locations=[self.experiment_id],
                run_id=self.run_id,
                include_spans=False,
                max_results=_PAGE_TRACES,
                page_token=token,
            )
            ids.update(trace.info.trace_id for trace in page)
            if not (token := page.token):
                return ids


def to_ms(moment: str) -> int:
    """Convert a moment in ISO 8601 to milliseconds since 1970."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def read_start_ms(info: RunInfo) -> int:
    """Return the start in milliseconds since 1970; now, if it is unknown."""
    return to_ms(info.started_at) if info.started_at else round(time.time() * 1000)


def flatten_params(info: RunInfo) -> dict[str, str]:
    """Return the resolved configuration under dotted names, without model settings if no model of ours is called."""
    config = {**info.config, "model": {"name": "none"}} if info.model == "none" else info.config
    leaves = _flatten(config, ".")
    return {name: value if isinstance(value, str) else json.dumps(value, default=str) for name, value in leaves}


def flatten_numbers(tree: Mapping[str, Any], separator: str = "/") -> Iterator[tuple[str, float]]:
    """Yield the numbers of nested dictionaries, an interval as two; MLflow has no null."""
    for name, value in _flatten(tree, separator):
        if name.endswith("ci95") and value is not None:
            yield from zip((f"{name}_low", f"{name}_high"), value, strict=True)
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield name.removesuffix(f"{separator}value"), float(value)


def _flatten(tree: Mapping[str, Any], separator: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested dictionaries under their paths; a list is a leaf."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, separator, f"{prefix}{key}{separator}")
        else:
            yield f"{prefix}{key}", value


def _name(text: str) -> str:
    """Replace characters that MLflow does not allow in a name, and what makes it an unusual path."""
    parts = re.sub(r"[^\w\-. /]", "_", text, flags=re.ASCII).split("/")
    return "/".join(part for part in parts if part.strip(". "))[:250]


# MLflow's pages render texts as Markdown, and descriptions as HTML too: a picture would be loaded from its host, which
# then knows who reads the answer. An invisible character (zero width space) makes it a link, or plain text.
_PICTURE = re.compile(
    r"(?:!|\\u0021)(?=\[|\\u005b)|<(?=/?(?:img|image|picture|source|svg|video|audio|iframe|object|embed|link|style)\b)"
    r'|(?<="type": ")(?=(?:input_)?image)',  # part of a message, in JSON
    re.IGNORECASE,
)


def clean_text(text: str) -> str:
    """Replace characters that no database stores, and break pictures that a page would load."""
    storable = text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return _PICTURE.sub("\\g<0>\u200b", storable)


def truncate(text: str, max_chars: int) -> str:
    """Clean a text and cut it to a column of fixed width, the mark of the cut included."""
    cleaned = clean_text(text)
    return cleaned if len(cleaned) <= max_chars else f"{cleaned[: max_chars - 1]}…"
