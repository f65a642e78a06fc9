from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.entities import FileInfo
from mlflow.entities.trace_metrics import AggregationType, MetricViewType
from mlflow.store.entities import PagedList

from eval.mlflow_export.completeness import (
    ExpectedCounts,
    compare_counts,
    compare_files,
    compare_metrics,
    count_in_mlflow,
    read_trace_ids,
)
from eval.mlflow_export.exporter_process import describe_shortfall
from eval.mlflow_export.run_page import RunPage, write_artifacts, write_page
from eval.mlflow_export.tracked_run import Sent, TrackedRun
from eval.mlflow_export.values import derive_trace_id, get_record_key
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet
from tests.eval.mlflow_export import records

Opened = Callable[..., TrackedRun]
Make = Callable[..., Record]
_runs = count()


@pytest.fixture
def a_record() -> Make:
    return partial(records.a_record, run_id=f"counted {next(_runs)}")


@pytest.mark.slow
def test_mlflow_counts_what_one_run_was_sent(opened: Opened, a_record: Make) -> None:
    mine, other = opened("run-1"), opened("run-2")
    assert count_in_mlflow(mine) == Sent(0, 0, 0)
    sent = mine.send([a_record("q1"), a_record("q2", rounds=2), a_record("q1", attempt=2, error="it broke")])
    other.send([records.a_record("q1", run_id="another")])
    assert count_in_mlflow(mine) == sent == Sent(3, 40, 12)
    assert describe_shortfall(compare_counts(sent, count_in_mlflow(mine))) is None
    assert read_trace_ids(mine) == {
        derive_trace_id(get_record_key(a_record(name, attempt=n))) for name, n in [("q1", 1), ("q2", 1), ("q1", 2)]
    }


def test_spans_that_an_earlier_version_has_sent_as_well_are_no_shortfall() -> None:
    assert describe_shortfall(compare_counts(Sent(2, 20, 8), Sent(2, 24, 8))) is None
    assert describe_shortfall(compare_counts(Sent(2, 20, 8), Sent(3, 20, 8))) == "3 of 2 traces"


def test_a_trace_without_its_spans_is_seen(opened: Opened, a_record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    run = opened()
    sent = run.send([a_record("q1")])

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run.tracing, "log_spans", crash)
    with pytest.raises(KeyboardInterrupt):
        run.send([a_record("q2")])
    assert describe_shortfall(compare_counts(sent.plus(Sent(1, 11, 4)), count_in_mlflow(run))) == "11 of 22 spans"


def test_numbers_that_mlflow_shows_otherwise_are_seen(opened: Opened) -> None:
    run, numbers = opened(), {"accuracy": 0.1 + 0.2, "n": 3.0}
    write_page(run, RunPage(metrics=numbers))
    assert describe_shortfall(compare_metrics(run, numbers)) is None
    assert describe_shortfall(compare_metrics(run, {**numbers, "n": 4.0, "cost_usd": 0.5})) == "1 of 3 metrics"
    assert describe_shortfall(compare_metrics(run, {"accuracy": 0.1 + 0.2})) == "1 outdated metrics (n)"


def test_files_that_mlflow_has_not_or_has_otherwise_are_seen(opened: Opened, tmp_path: Path) -> None:
    run, prompts = opened(), {"prompts": PromptSet("baseline", "toy", {"planner": "Plän."}, tmp_path)}
    (tmp_path / "logs").mkdir()
    for name in ("summary.json", "logs/entry_point.log", "logs/mlflow.log"):
        (tmp_path / name).write_text("{}")
    assert describe_shortfall(compare_files(run, tmp_path, prompts)) == "0 of 3 files"
    write_artifacts(run, tmp_path, prompts)
    (tmp_path / "logs" / "mlflow.log").write_text("{} and more")  # its own log says that it was sent
    assert describe_shortfall(compare_files(run, tmp_path, prompts)) is None
    (tmp_path / "summary.json").write_text("{ }")
    assert describe_shortfall(compare_files(run, tmp_path, prompts)) == "2 of 3 files"


def test_a_file_whose_length_is_not_told_is_sent_again_and_counts(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened()
    (tmp_path / "summary.json").write_text("{}")
    write_artifacts(run, tmp_path, {})
    listed = run.client.list_artifacts(run.run_id)
    untold = [FileInfo(each.path, each.is_dir, None) for each in listed]
    monkeypatch.setattr(run.client, "list_artifacts", lambda *_: untold)
    assert describe_shortfall(compare_files(run, tmp_path, {})) is None
    assert describe_shortfall(compare_files(run, tmp_path, {}, known_only=True)) == "0 of 1 files"


def test_a_shortfall_names_each_kind() -> None:
    counts = {
        "traces": {"store": 64, "mlflow": 63},
        "spans": {"store": 9, "mlflow": 9},
        "files": {"store": 2, "mlflow": 0},
    }
    assert describe_shortfall(counts) == "63 of 64 traces, 0 of 2 files"


def test_what_mlflow_should_have_is_counted_as_the_records_come(a_record: Make) -> None:
    """A record of one round has 11 steps to show, and the assessments gold, correct, format and error class."""
    expected = ExpectedCounts()
    assert expected.sent == Sent(0, 0, 0)
    found = []
    for record in (
        a_record("q1", error="it broke"),
        a_record("q1", attempt=2),  # the first attempt loses its verdict
        a_record("q1", epoch=2),
        a_record("q2", target=None, score=None, parts={}),
        a_record("q2", target=None, score=None, parts={}, attempt=2),  # there was no verdict to lose
        a_record("q2", attempt=3),
        a_record("q2", attempt=4),
    ):
        before = expected.sent
        expected.add(record)
        found.append(tuple(now - then for now, then in zip(expected.sent, before, strict=True)))
    assert found == [(1, 11, 4), (1, 11, 3), (1, 11, 4), (1, 11, 1), (1, 11, 1), (1, 11, 4), (1, 11, 3)]


def test_mlflow_counts_inside_its_database_each_kind_of_one_run() -> None:
    asked: list[dict[str, Any]] = []

    def answer(**query: Any) -> list[SimpleNamespace]:
        asked.append(query)
        return [SimpleNamespace(values={"COUNT": 10.0 * len(asked)}), SimpleNamespace(values={"a": 1.0, "b": 2.0})]

    store = SimpleNamespace(query_trace_metrics=answer)
    run = TrackedRun(None, SimpleNamespace(store=store), "uri", "7", "r1")  # type: ignore[arg-type]
    assert count_in_mlflow(run) == Sent(traces=13, spans=23, assessments=33)
    assert [(each["view_type"], each["metric_name"]) for each in asked] == [
        (MetricViewType.TRACES, "trace_count"),
        (MetricViewType.SPANS, "span_count"),
        (MetricViewType.ASSESSMENTS, "assessment_count"),
    ]
    for each in asked:
        assert [only.aggregation_type for only in each["aggregations"]] == [AggregationType.COUNT]
        assert (each["experiment_ids"], each["filters"]) == (["7"], ["trace.metadata.`mlflow.sourceRun` = 'r1'"])


def test_the_ids_of_a_runs_traces_are_read_page_by_page_without_their_spans() -> None:
    asked: list[dict[str, Any]] = []

    def search(**query: Any) -> PagedList[SimpleNamespace]:
        asked.append(query)
        ids, token = (["t1", "t2"], "more") if query["page_token"] is None else (["t3"], None)
        return PagedList([SimpleNamespace(info=SimpleNamespace(trace_id=each)) for each in ids], token)

    run = TrackedRun(None, SimpleNamespace(search_traces=search), "uri", "7", "r1")  # type: ignore[arg-type]
    assert read_trace_ids(run) == {"t1", "t2", "t3"}
    common = {"locations": ["7"], "run_id": "r1", "include_spans": False, "max_results": 500}
    assert asked == [{**common, "page_token": None}, {**common, "page_token": "more"}]


def test_counts_are_compared_kind_by_kind() -> None:
    assert compare_counts(Sent(2, 20, 8), Sent(3, 24, 9)) == {
        "traces": {"store": 2, "mlflow": 3},
        "spans": {"store": 20, "mlflow": 20},
        "assessments": {"store": 8, "mlflow": 9},
    }
    assert compare_counts(Sent(2, 20, 8), Sent(1, 19, 7))["spans"] == {"store": 20, "mlflow": 19}


def showing(metrics: dict[str, float] | None = None, files: dict[str, int | None] | None = None) -> TrackedRun:
    """A run that shows these numbers and files; each folder with a name of its own is one as well."""

    def list_artifacts(run_id: str, place: str | None) -> list[FileInfo]:
        assert run_id == "r1"
        inside = [FileInfo(name, False, size) for name, size in (files or {}).items() if where(name) == place]
        return [*inside, FileInfo("summary.json/", True, 2)]

    def where(name: str) -> str | None:
        return name.rpartition("/")[0] or None

    data = SimpleNamespace(data=SimpleNamespace(metrics=metrics or {}))
    client = SimpleNamespace(get_run=lambda run_id: {"r1": data}[run_id], list_artifacts=list_artifacts)
    return TrackedRun(client, None, "uri", "7", "r1")  # type: ignore[arg-type]


def test_numbers_are_compared_by_name_and_value() -> None:
    shown = showing({"accuracy": 0.5, "n": 3.0, "of somebody else": 1.0, "cost_usd": float("nan")})
    assert compare_metrics(shown, {"accuracy": 0.5, "n": 3.0}) == {"metrics": {"store": 2, "mlflow": 2}}
    assert compare_metrics(shown, {"accuracy": 0.4, "score": 0.0}) == {
        "metrics": {"store": 2, "mlflow": 0}, "outdated metrics (n)": {"store": 0, "mlflow": 1},
    }  # fmt: skip
    assert compare_metrics(showing({"n": 3.0, "accuracy": 0.5}), {"score": 1.0}) == {
        "metrics": {"store": 1, "mlflow": 0}, "outdated metrics (accuracy, n)": {"store": 0, "mlflow": 2},
    }  # fmt: skip
    assert compare_metrics(None, {}) == {"metrics": {"store": 0, "mlflow": 0}}, "nobody asks MLflow"  # type: ignore[arg-type]


def test_files_are_compared_by_name_and_length(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("summary.json", "config.yaml", "logs/entry_point.log", "logs/mlflow.log", "unknown.txt"):
        (tmp_path / name).write_text("{}")
    prompts = {"prompts": PromptSet("baseline", "toy", {"planner": "Plän."}, tmp_path)}
    right: dict[str, int | None] = {
        "summary.json": 2, "config.yaml": 2, "logs/entry_point.log": 2, "prompts/planner_system_prompt.txt": 7,
    }  # fmt: skip
    for files, expected in (
        (right, 4),
        ({**right, "logs/mlflow.log": 9, "unknown.txt": 9}, 4),
        ({**right, "summary.json": 3}, 3),
        ({**right, "prompts/planner_system_prompt.txt": 6}, 3),
        ({name: size for name, size in right.items() if name != "config.yaml"}, 3),
        ({**right, "config.yaml": None}, 4),  # a length that is not told
        ({}, 0),
    ):
        counts = compare_files(showing(files=files), tmp_path, prompts)
        assert counts == {"files": {"store": 4, "mlflow": expected}}, files
    untold = showing(files={**right, "config.yaml": None})
    assert compare_files(untold, tmp_path, prompts, known_only=True) == {"files": {"store": 4, "mlflow": 3}}
