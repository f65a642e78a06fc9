"""A judge compared with people's labels on its answers."""

from typing import Any

from eval.analysis.statistics.intervals import compute_clustered_interval
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import HumanAgreement
from eval.reports.human_review import describe_agreement
from eval.runs.record import HumanVerdict, Record
from eval.scorers.score import JUDGE
from tests.eval.stored_run import answered


def labelled(sample_id: str, answer: str, label: str, **changes: Any) -> Record:
    return answered(
        sample_id, answer, human=[HumanVerdict("1", label, "ada", "2026", "r", is_applied=False)], **changes
    )


def agree(*records: Record) -> HumanAgreement | None:
    return summarise(records, RunDetails(run_id="r", scorer=JUDGE)).judge_agreement


def test_accepted_and_rejected_answers_are_counted_apart() -> None:
    found = agree(
        *(labelled("a", "17", "right"), labelled("b", "17", "wrong"), answered("c", "17")),
        *(labelled("d", "18", "wrong"), labelled("d", "18", "wrong", epoch=2), labelled("e", "18", "wrong_gold")),
    )
    assert found is not None
    assert (found.accepted.n, found.accepted.score) == (2, 0.5)
    assert (found.rejected.n, found.rejected.score) == (1, 1.0), "the same answer once; a wrong target says nothing"
    assert found.accepted.score_ci95 == compute_clustered_interval([(1, 1), (0, 1)])
    assert "50.0% of 2 (" in describe_agreement(found) and "100.0% of 1 (" in describe_agreement(found)


def test_without_labels_there_is_no_agreement() -> None:
    assert agree(answered("a", "17")) is None
    assert "eval/view.py" in describe_agreement(None)
