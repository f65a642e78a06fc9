"""How a run scored on the questions that its prompts were not tuned on, in summary, line and MLflow's numbers."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from eval.analysis.statistics.intervals import Estimate
from eval.analysis.summary.summary import Summary
from eval.mlflow_export.run_export import collect_metrics
from eval.reports.summary_table import list_notes
from eval.runs.record import Record
from eval.runs.run_info import TuningUse
from tests.eval.stored_run import summarise_records

Make = Callable[..., Record]


def summary_of(*records: Record, learnt_from: str = "", picked_by: str = "", **facts: Any) -> Summary:
    use = TuningUse("mine", list(learnt_from), list(picked_by))
    return summarise_records(records, **{"tuning_use": use, **facts})


def test_questions_tuned_on_are_left_out_as_a_whole_and_those_of_no_run_do_not_count(record: Make) -> None:
    records = [record(id, epoch=epoch, score=float(id < "c")) for id in "abcd" for epoch in (1, 2)]
    summary = summary_of(*records, learnt_from="az", picked_by="c", epochs=2)
    assert summary.accuracy == 0.5
    assert summary.used_to_tune is not None
    assert asdict(summary.used_to_tune) == {
        "prompts": "mine", "n_questions": 2, "n_all": 4, "n_learnt_from": 1, "n_picked_by": 1,
        "is_edited": False,
        "without": {"value": 0.5, "n": 4, "ci95": (pytest.approx(0.003, abs=1e-3), pytest.approx(0.997, abs=1e-3))},
    }  # fmt: skip
    name, line = next(list_notes(summary))
    assert (name, line) == (
        "tuned on",
        "2 of 4 questions were used to tune mine (1 for training, 1 for validation), so the accuracy is inflated; "
        "accuracy without them: 50.0% of 4 (0.3% to 99.7%)",
    )


def test_where_all_were_used_nothing_is_left_to_count(record: Make) -> None:
    summary = summary_of(record("a", score=1.0), picked_by="a")
    assert summary.used_to_tune and summary.used_to_tune.without == Estimate(None, None, 0)
    assert dict(list_notes(summary))["tuned on"] == (
        "1 of 1 question was used to tune mine (0 for training, 1 for validation), so the accuracy is inflated"
    )


def test_only_questions_with_a_gold_answer_count(record: Make) -> None:
    summary = summary_of(record("a", target=None), record("b", score=1.0), record("c"), learnt_from="ab")
    assert dict(list_notes(summary))["tuned on"].startswith(
        "1 of 2 questions was used to tune mine (1 for training, 0 for validation), so the "
        "accuracy is inflated; accuracy without them: 0.0% of 1"
    )
    clean = summary_of(record("a", target=None), record("b"), learnt_from="a")
    assert dict(list_notes(clean))["tuned on"] == "none of 1 question was used to tune mine"
    assert summary_of(record("a", target=None), learnt_from="a").used_to_tune is None


def test_of_an_edited_set_none_is_never_said(record: Make) -> None:
    told = "tuned_on.json of mine was edited or removed: which questions it was tuned on is not known"
    nothing_left = TuningUse("mine", [], [], is_edited=True)
    summary = summary_of(record("a"), record("b"), tuning_use=nothing_left)
    assert dict(list_notes(summary))["tuned on"] == told
    assert "used_to_tune/n_questions" not in collect_metrics(summary)
    some_left = summary_of(record("a"), record("b"), tuning_use=replace(nothing_left, learnt_from=["a"]))
    line = dict(list_notes(some_left))["tuned on"]
    assert line.startswith("1 of 2 questions was used")
    assert line.endswith(f"; {told}")


def test_what_is_not_known_is_not_told(record: Make) -> None:
    summary = summary_of(record("a"), tuning_use=None)
    assert summary.used_to_tune is None
    assert "tuned on" not in dict(list_notes(summary))


def test_mlflow_gets_the_numbers(record: Make) -> None:
    met = collect_metrics(summary_of(record("a", score=1.0), record("b"), learnt_from="a"))
    assert {name: value for name, value in met.items() if name.startswith("used_to_tune/without")} == {
        "used_to_tune/without": 0.0,
        "used_to_tune/without/n": 1.0,
        "used_to_tune/without/ci95_low": 0.0,
        "used_to_tune/without/ci95_high": pytest.approx(0.975, abs=1e-3),
    }
    unknown = collect_metrics(summary_of(record("a"), tuning_use=None))
    assert not [name for name in unknown if "used_to_tune" in name]
