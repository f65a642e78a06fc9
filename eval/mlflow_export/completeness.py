"""Comparison of what MLflow has of a run with what the run's store and folder have.

MLflow itself counts traces, spans and assessments: three sums, however many questions there were. Its
`query_trace_metrics`, which its own charts use, counts inside the database, so that no trace is fetched.

    count_in_mlflow(run)               # Sent(traces=64, spans=1856, assessments=256)
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from eval.mlflow_export.exporter_process import Counts
from eval.mlflow_export.run_page import ARTIFACTS, list_outdated_metrics
from eval.mlflow_export.tracked_run import Sent, TrackedRun, read_pages
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet, name_prompt_file

if TYPE_CHECKING:
    from mlflow.entities import Trace

OWN_LOG = "logs/mlflow.log"  # grows while it is sent
_PAGE_TRACES = 500


class ExpectedCounts:
    """Numbers that MLflow should have of the records read so far, in the order in which they were written."""

    def __init__(self) -> None:
        self.sent = Sent()
        self._last_has_verdict: dict[tuple[str, int], bool] = {}  # sample id, epoch

    def add(self, record: Record) -> None:
        """Count a record by the rules of `build_trace`; an attempt that a later one replaces has lost its verdict."""
        from eval.mlflow_export.assessments import list_assessments
        from eval.mlflow_export.traces import list_shown_steps

        key = (record.sample_id, record.epoch)
        lost = self._last_has_verdict.get(key, False)
        self._last_has_verdict[key] = record.scored
        n_assessments = len(list(list_assessments(record))) - lost
        self.sent = self.sent.plus(Sent(1, len(list_shown_steps(record)), n_assessments))


def count_in_mlflow(run: TrackedRun) -> Sent:
    """Count what MLflow has of the run.

    Raises:
        MlflowException: MLflow cannot be reached, or refuses.
    """
    return Sent(
        _sum(run, "TRACES", "trace_count"),
        _sum(run, "SPANS", "span_count"),
        _sum(run, "ASSESSMENTS", "assessment_count"),
    )


def _sum(run: TrackedRun, view: str, metric: str) -> int:
    from mlflow.entities.trace_metrics import AggregationType, MetricAggregation, MetricViewType

    points = run.tracing.store.query_trace_metrics(
        experiment_ids=[run.experiment_id],
        view_type=MetricViewType(view),
        metric_name=metric,
        aggregations=[MetricAggregation(AggregationType.COUNT)],
        filters=[f"trace.metadata.`mlflow.sourceRun` = '{run.run_id}'"],
    )
    return round(sum(sum(point.values.values()) for point in points))


def read_trace_ids(run: TrackedRun) -> set[str]:
    """Return the ids of the traces that MLflow has of the run, with all their spans or not."""
    traces: Iterator[Trace] = read_pages(
        lambda token: run.tracing.search_traces(
            locations=[run.experiment_id],
            run_id=run.run_id,
            include_spans=False,
            max_results=_PAGE_TRACES,
            page_token=token,
        )
    )
    return {trace.info.trace_id for trace in traces}


def compare_counts(in_store: Sent, in_mlflow: Sent) -> Counts:
    """Compare the counts. Spans that an earlier version has sent and this one does not are left out."""
    both = zip(Sent._fields, in_store, in_mlflow, strict=True)
    return {
        name: {"store": mine, "mlflow": min(mine, theirs) if name == "spans" else theirs} for name, mine, theirs in both
    }


def compare_metrics(run: TrackedRun, wanted: Mapping[str, float]) -> Counts:
    """Count the metrics that MLflow shows with the right value, and list those that it should not show any more."""
    shown: Mapping[str, float] = run.client.get_run(run.run_id).data.metrics if wanted else {}
    equal = sum(shown.get(name) == value for name, value in wanted.items())
    counts = {"metrics": {"store": len(wanted), "mlflow": equal}}
    if outdated := sorted(list_outdated_metrics(wanted, shown)):
        counts[f"outdated metrics ({', '.join(outdated)})"] = {"store": 0, "mlflow": len(outdated)}
    return counts


def compare_files(run: TrackedRun, folder: Path, prompts: Mapping[str, PromptSet], known_only: bool = False) -> Counts:
    """Count the run's files that MLflow has with the same length.

    Args:
        run: the run in MLflow.
        folder: the run's folder on this machine.
        prompts: folder in the run's → the set in it.
        known_only: a file whose length the artifact store does not report, as some do not, counts as missing.
    """
    wanted = _list_files(folder, prompts)
    listed: dict[str, int | None] = {}
    for place in sorted({name.rpartition("/")[0] for name in wanted}):
        found = run.client.list_artifacts(run.run_id, place or None)
        listed |= {each.path: each.file_size for each in found if not each.is_dir}
    accepted = () if known_only else (None,)
    equal = sum(name in listed and listed[name] in (size, *accepted) for name, size in wanted.items())
    return {"files": {"store": len(wanted), "mlflow": equal}}


def _list_files(folder: Path, prompts: Mapping[str, PromptSet]) -> dict[str, int]:
    """Map each file's name in MLflow to its bytes."""
    paths = [folder / name for name in ARTIFACTS]
    inside = [path for parent in paths if parent.is_dir() for path in parent.iterdir()]
    files = {str(path.relative_to(folder)): path.stat().st_size for path in [*paths, *inside] if path.is_file()}
    files.pop(OWN_LOG, None)
    for place, prompt_set in prompts.items():
        files |= {
            f"{place}/{name_prompt_file(agent)}": len(f"{text}\n".encode()) for agent, text in prompt_set.texts.items()
        }
    return files
