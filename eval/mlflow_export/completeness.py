"""Whether MLflow has what the run's store has, counted by MLflow itself: three sums, however many questions there were.

`query_trace_metrics` (MLflow's own charts use it) counts inside the database, so that no trace is fetched for it.

    stored(run)                        # Sent(traces=64, spans=1856, assessments=256)
    shortfall({"traces": {"store": 64, "mlflow": 63}})        # "63 of 64 traces"
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval.mlflow_export.run_page import ARTIFACTS, list_outdated_metrics
from eval.mlflow_export.sending import Sent, TrackedRun
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import SUFFIX, PromptSet

_PAGE_TRACES = 500
OWN_LOG = "logs/mlflow.log"  # goes on growing while it is sent

Counts = dict[str, dict[str, int]]


class Expected:
    """What MLflow shall have of the records read so far, in the order in which they were written."""

    def __init__(self) -> None:
        self.sent = Sent()
        self._last_has_verdict: dict[tuple[str, int], bool] = {}  # sample id, epoch

    def add(self, record: Record) -> None:
        """By the same rules as `trace_of`; a try that a later one replaces has lost its verdict."""
        from eval.mlflow_export.assessments import list_assessment_names

        key = (record.sample_id, record.epoch)
        lost = self._last_has_verdict.get(key, False)
        self._last_has_verdict[key] = record.scored
        self.sent = self.sent.plus(Sent(1, len(record.trajectory) or 1, len(list_assessment_names(record)) - lost))


def count_in_mlflow(run: TrackedRun) -> Sent:
    """How much of the run is in MLflow.

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


def trace_ids(run: TrackedRun) -> set[str]:
    """Of the traces that MLflow has of the run, with all their spans or not; for a run that goes on."""
    found: set[str] = set()
    token = None
    while True:
        page = run.tracing.search_traces(
            locations=[run.experiment_id],
            run_id=run.run_id,
            include_spans=False,
            max_results=_PAGE_TRACES,
            page_token=token,
        )
        found.update(trace.info.trace_id for trace in page)
        if not (token := page.token):
            return found


def compare_counts(in_store: Sent, in_mlflow: Sent) -> Counts:
    both = zip(Sent._fields, in_store, in_mlflow, strict=True)
    return {name: {"store": mine, "mlflow": theirs} for name, mine, theirs in both}


def compare_metrics(run: TrackedRun, wanted: Mapping[str, float]) -> Counts:
    """How many of the run's numbers MLflow shows just so; and, by their names, those that it should show no more."""
    shown: Mapping[str, Any] = run.client.get_run(run.run_id).data.metrics if wanted else {}
    equal = sum(shown.get(name) == value for name, value in wanted.items())
    counts = {"metrics": {"store": len(wanted), "mlflow": equal}}
    if outdated := sorted(list_outdated_metrics(wanted, shown)):
        counts[f"outdated metrics ({', '.join(outdated)})"] = {"store": 0, "mlflow": len(outdated)}
    return counts


def compare_files(run: TrackedRun, folder: Path, prompts: Mapping[str, PromptSet], known_only: bool = False) -> Counts:
    """How many of the run's files MLflow has with the same length.

    Args:
        prompts: folder in the run's → the set in it.
        known_only: a file whose length the artifact store does not tell, as some do not, is one that it has not.
    """
    wanted = _files(folder, prompts)
    listed: dict[str, int | None] = {}
    for place in sorted({name.rpartition("/")[0] for name in wanted}):
        found = run.client.list_artifacts(run.run_id, place or None)
        listed |= {each.path: each.file_size for each in found if not each.is_dir}
    untold = () if known_only else (None,)
    equal = sum(name in listed and listed[name] in (size, *untold) for name, size in wanted.items())
    return {"files": {"store": len(wanted), "mlflow": equal}}


def _files(folder: Path, prompts: Mapping[str, PromptSet]) -> dict[str, int]:
    """Name in MLflow → bytes."""
    paths = [folder / name for name in ARTIFACTS]
    inside = [path for parent in paths if parent.is_dir() for path in parent.iterdir()]
    files = {str(path.relative_to(folder)): path.stat().st_size for path in [*paths, *inside] if path.is_file()}
    files.pop(OWN_LOG, None)
    for place, prompt_set in prompts.items():
        files |= {f"{place}/{agent}{SUFFIX}": len(f"{text}\n".encode()) for agent, text in prompt_set.texts.items()}
    return files


def describe_shortfall(counts: Mapping[str, Mapping[str, int]]) -> str | None:
    """What differs, in words; None: nothing does."""
    pairs = {name: (each["mlflow"], each["store"]) for name, each in counts.items()}
    different = [
        f"{theirs} of {mine} {name}" if mine else f"{theirs} {name}"
        for name, (theirs, mine) in pairs.items()
        if theirs != mine
    ]
    return ", ".join(different) or None
