from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import FileInfo

from eval.mlflow_export.completeness import (
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
