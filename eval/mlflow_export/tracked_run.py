"""A run in MLflow: find or create it, send traces to it, and count what it has.

Sending the same again changes nothing. Whatever MLflow raises goes on to the caller (`mlflow.MlflowException`, mostly),
who may call again: nothing is kept here that a failed call would spoil.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from eval.config.tracking import LocalTracking, Tracking
from mas.runtime.errors import UserError

if TYPE_CHECKING:  # MLflow is heavy, and reads its environment when it is imported: see `connect`
    from mlflow import MlflowClient
    from mlflow.entities import Trace
    from mlflow.tracing.client import TracingClient

RUN_TAG = "harness.run_id"
IN_MLFLOW_TAG = "harness.in_mlflow"
COMPLETE = "complete"  # else the tag says what is missing
PARENT_TAG = "mlflow.parentRunId"
MAX_RESULTS = 50_000  # of a search, MLflow's limit; of traces it is 500
_PAGE_TRACES = 500
_LOCK_SECONDS = 60.0  # for another process that creates MLflow's tables


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

    Both are created if MLflow does not have them, the run with a name, its start (ms since 1970), and tags.

    Raises:
        UserError: the experiment is in MLflow's bin.
        MlflowException, OSError: MLflow cannot be reached or refuses.
    """
    with ExitStack() as stack:
        if isinstance(settings, LocalTracking):  # two processes that create MLflow's tables in one file break both
            from filelock import FileLock

            settings.path().mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(settings.path() / "mlflow.db.lock", timeout=_LOCK_SECONDS))
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
