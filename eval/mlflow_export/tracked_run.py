"""A run in MLflow: find or create it, send traces to it, and count what it has.

Sending the same again changes nothing. Whatever MLflow raises goes on to the caller (`mlflow.MlflowException`, mostly),
who may call again: nothing is kept here that a failed call would spoil. A server that is down costs seconds, by the
settings' `environment()`.

    run = open_run(LocalTracking(), "9c1f", name="gaia_gpt-4o-mini", start_ms=1_763_000_000_000, tags={"host": "box"})
    run.send([build_trace(record, run.experiment_id, run.run_id) for record in records])
    run.count()                # Counter(traces=2, spans=61)
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from eval.config.tracking import LocalTracking, Tracking
from mas.runtime.errors import UserError

if TYPE_CHECKING:  # MLflow is heavy, and reads its environment when it is imported: see `connect`
    from mlflow import MlflowClient
    from mlflow.entities import Trace
    from mlflow.store.entities.paged_list import PagedList
    from mlflow.tracing.client import TracingClient

T = TypeVar("T")

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
    settings: Tracking,
    run_id: str,
    *,
    name: str,
    start_ms: int,
    tags: Mapping[str, str] | None = None,
    has_traces: bool = True,
) -> "TrackedRun":
    """Return the run with this id of ours, created if MLflow has none; its status stays as it is.

    Args:
        settings: address and experiment of MLflow.
        run_id: id of the run in its store.
        name: of a new run, as are the start in milliseconds since 1970, and the tags.
        has_traces: MLflow has one trace of an id: sent to another experiment, it would vanish from the first.

    Raises:
        UserError: the experiment is in MLflow's bin, or the run, with its traces, is in another one.
        MlflowException, OSError: MLflow cannot be reached or refuses.
    """
    with ExitStack() as stack:
        if isinstance(settings, LocalTracking):  # two processes that create MLflow's tables in one file break both
            from filelock import FileLock

            settings.path().mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(settings.path() / "mlflow.db.lock", timeout=_LOCK_SECONDS))
        client, tracing = connect(settings)
        own_id = _get_experiment_id(client, settings.experiment, settings.artifact_location())
        experiments = client.search_experiments(max_results=MAX_RESULTS) if has_traces else ()
        names = {str(each.experiment_id): each.name for each in experiments}
        found = client.search_runs([*{own_id, *names}], f"tags.`{RUN_TAG}` = '{run_id}'", max_results=MAX_RESULTS)
        here = [each for each in found if str(each.info.experiment_id) == own_id]
        if not here and found:
            there = names[str(found[0].info.experiment_id)]
            raise UserError(
                f"{name} is in the experiment {there} there already, and its traces can be in one only; "
                f"give tracking.experiment='{there}', or another MLflow."
            )
        if not here:
            here = [client.create_run(own_id, start_ms, tags={**(tags or {}), RUN_TAG: run_id}, run_name=name)]
    return TrackedRun(client, tracing, own_id, str(here[0].info.run_id))


def read_pages(fetch: "Callable[[str | None], PagedList[T]]") -> Iterator[T]:
    """Yield the items of all pages; `fetch` returns the page with a token, the first one for None."""
    token = None
    while True:
        page = fetch(token)
        yield from page
        if not (token := page.token):
            return


def _get_experiment_id(client: "MlflowClient", name: str, location: str | None) -> str:
    """Return the id of the experiment, which is created if need be."""
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, location))
        except Exception:  # another run that starts at the same moment may have made it
            if (found := client.get_experiment_by_name(name)) is None:
                raise
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
        given = {"locations": [self.experiment_id], "run_id": self.run_id, "include_spans": False}
        traces: Iterator[Trace] = read_pages(
            lambda token: self.tracing.search_traces(**given, max_results=_PAGE_TRACES, page_token=token)
        )
        return {trace.info.trace_id for trace in traces}


def to_ms(moment: str) -> int:
    """Convert a moment in ISO 8601 to milliseconds since 1970."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


# MLflow's pages render texts as Markdown, and descriptions as HTML too: a picture would be loaded from its host, which
# then knows who reads the answer. An invisible character (zero width space) makes it a link, or plain text.
_PICTURE = re.compile(
    r"(?:!|\\u0021)(?=\[|\\u005b)|<(?=/?(?:img|image|picture|source|svg|video|audio|iframe|object|embed|link|style)\b)",
    re.IGNORECASE,
)
MAX_TEXT_CHARS = 20_000  # of one text inside a span; the run's records.jsonl has it whole


def clean_text(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Replace characters that no database stores, break pictures that a page would load, and cut the text."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    if "\x00" in text:
        text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    if len(text) <= max_chars:
        return break_pictures(text)
    kept = break_pictures(text[:max_chars])
    return f"{kept}\n[cut: the first {max_chars} of {len(text)} characters; records.jsonl has the whole]"


def break_pictures(text: str) -> str:
    """Return the text so that MLflow's pages load no picture for it."""
    return _PICTURE.sub("\\g<0>\u200b", text)


def truncate(text: str, max_chars: int) -> str:
    """Cut the text to a column of fixed width, the mark of the cut included."""
    cleaned = clean_text(text, max_chars=max(len(text), 1))
    return cleaned if len(cleaned) <= max_chars else f"{cleaned[: max_chars - 1]}…"
