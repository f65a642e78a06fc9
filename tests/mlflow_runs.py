"""Whole commands against a real MLflow, and what MLflow then has of them: for the tests that start servers.

run = finish(tmp_path / "run", *model(llm_url), *tracking, environment=server.environment)
copy = CopyInMlflow.of(run.folder)            # read through MLflow's public client
copy.counts, counts_in_store(run.folder)      # (64, 1536, 256), (64, 1536, 256)
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.runs.record import Record
from eval.runs.store import RunStore
from tests.eval.command_line import Finished, question, write_questions
from tests.process import finish


def model(llm_url: str) -> list[str]:
    """Options for the model that the server at `llm_url` is."""
    return ["model=openai_compatible", "model.name=fixed", f"model.base_url={llm_url}"]


def sync(folder: Path, *options: str, environment: Mapping[str, str] | None = None) -> Finished:
    return finish(folder, folder, *options, script="eval/sync.py", environment=environment)


def many_questions(folder: Path, number: int) -> list[str]:
    """Options for that many questions, all of which `fixed_llm.py` answers rightly."""
    rows = (question(f"q{each}", f"What is 6 * 7? Asked for the time number {each}.", "42") for each in range(number))
    write_questions(folder, *rows)
    return ["data=jsonl", f"data.path={folder}"]


def records_in_store(folder: Path) -> list[Record]:
    with RunStore(folder / "run.db", read_only=True) as store:
        return list(store.records())


def counts_in_store(folder: Path) -> tuple[int, int, int]:
    """Traces, spans, assessments that the records should make: gold, verdict, format and error class each."""
    from eval.mlflow_export.traces import list_shown_steps

    records = records_in_store(folder)
    return len(records), sum(len(list_shown_steps(each)) for each in records), 4 * len(records)


@dataclass(frozen=True)
class CopyInMlflow:
    traces: dict[str, Any]
    metrics: dict[str, float]
    status: str
    experiment_id: str

    @classmethod
    def of(cls, folder: Path) -> "CopyInMlflow":
        """Read all of it; the environment must say who asks."""
        from mlflow import MlflowClient

        link = json.loads((folder / "mlflow.json").read_text("utf-8"))
        client = MlflowClient(tracking_uri=link["uri"])
        run = client.get_run(link["run_id"])
        traces = {trace.info.trace_id: trace for trace in _traces(client, link)}
        return cls(traces, dict(run.data.metrics), run.info.status, link["experiment_id"])

    @property
    def counts(self) -> tuple[int, int, int]:
        traces = self.traces.values()
        assessments = sum(len(trace.info.assessments) for trace in traces)
        return len(traces), sum(len(trace.data.spans) for trace in traces), assessments

    def span_of(self, record: Record, place: int) -> Any:
        """The span at that place of the record's trajectory, found by its name and its beginning."""
        from eval.mlflow_export.traces import derive_trace_id

        step = record.trajectory[place]
        trace = self.traces[derive_trace_id(record, self.experiment_id)]
        origin = min(span.start_time_ns for span in trace.data.spans)
        begin_ns = origin + round((step["start_seconds"] - record.trajectory[0]["start_seconds"]) * 1e9)
        return min(trace.data.spans, key=lambda span: (abs(span.start_time_ns - begin_ns), span.name))


def _traces(client: Any, link: Mapping[str, str]) -> Iterator[Any]:
    token = None
    while True:
        page = client.search_traces(
            locations=[link["experiment_id"]], run_id=link["run_id"], max_results=100, page_token=token
        )
        yield from page
        if not (token := page.token):
            return


def texts(tree: Any) -> set[str]:
    """The strings of any depth, as they say something: not the keys."""
    if isinstance(tree, str):
        return {tree} if tree else set()
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    return set().union(*map(texts, tree)) if isinstance(tree, list) else set()
