"""What a summary counts, at the edges of its rules; its other numbers: test_summary.py."""

from collections.abc import Callable

import pytest

from eval.analysis.summary.summarise import (
    MAX_PARTS,
    MAX_TAG_VALUES,
    RunDetails,
    is_planned,
    select_final_attempts,
    summarise,
)
from eval.analysis.summary.summary import Counts, Retried, SessionSummary, Summary
from eval.runs.record import Record

Make = Callable[..., Record]


def summed(*records: Record, **details: object) -> Summary:
    return summarise(records, RunDetails(run_id="run-1", **details))  # type: ignore[arg-type]


def in_error(error_class: str | None = "internal") -> dict[str, object]:
    return {"answer": None, "score": None, "error": f"it is {error_class}", "error_class": error_class}


def test_the_counts_of_right_wrong_failed_and_unscored_answers(record: Make) -> None:
    found = summed(
        record("a", score=1.0),
        record("b", score=0.5),
        record("c", **in_error("infrastructure")),
        record("d", **in_error()),
        record("e", target=None, score=None),
        record("f", target=None, **in_error()),
        record("g", score=1.0, level=None),
    )
    assert Counts(**{name: getattr(found, name) for name in vars(found.by_level["1"])}) == Counts(
        n=7,
        n_scored=5,
        n_correct=2,
        n_wrong=1,
        accuracy=0.4,
        accuracy_ci95=found.accuracy_ci95,
        score=0.5,
        score_ci95=found.score_ci95,
        n_error=3,
        n_infrastructure=1,
        n_not_run=0,
    )
    assert found.accuracy_ci95 and found.accuracy_ci95[0] < 0.4 < found.accuracy_ci95[1]
    assert (found.incomplete, found.n_unscored, found.n_questions, found.epochs) == (False, 2, 7, 1)
    assert found.mean_score == 0.5 and list(found.by_level) == ["1"] and found.by_level["1"].n == 6
    assert found.errors_by_class == {"internal": 2, "infrastructure": 1}
    assert found.first_errors == {"infrastructure": "it is infrastructure", "internal": "it is internal"}


def test_one_answer_to_come_makes_the_run_incomplete(record: Make) -> None:
    found = summed(record("a", score=1.0), record("b", **in_error("not_run")))
    assert (found.incomplete, found.n_not_run, found.accuracy, found.accuracy_ci95) == (True, 1, 0.5, None)
    assert found.first_errors == {}, "nothing was met where nothing was run"


@pytest.mark.parametrize(
    ("epoch", "epochs", "sample_ids", "expected"),
    [
        (2, 2, None, True),
        (3, 2, None, False),
        (3, None, None, True),
        (1, 1, {"a"}, True),
        (1, 1, {"b"}, False),
        (2, 1, {"a"}, False),
        (1, None, {"b"}, False),
    ],
)
def test_an_attempt_is_planned_by_its_epoch_and_its_sample(
    epoch: int, epochs: int | None, sample_ids: set[str] | None, expected: bool, record: Make
) -> None:
    made = record("a", epoch=epoch, score=1.0)
    assert is_planned(made, epochs, sample_ids) is expected
    found = summed(made, epochs=epochs, sample_ids=sample_ids)
    assert (found.n, found.n_outside_plan) == ((1, 0) if expected else (0, 1))


def test_the_last_attempt_at_each_epoch_is_final_whatever_the_order(record: Make) -> None:
    first, second, other = (
        record("a", attempt=1),
        record("a", attempt=2, score=1.0),
        record("a", epoch=2, attempt=1),
    )
    assert select_final_attempts([first, other, second]) == [second, other]
    assert select_final_attempts([second, first]) == [second]
    same = record("a", attempt=2)
    assert select_final_attempts([second, same])[0] is second


def test_what_a_second_attempt_changed(record: Make) -> None:
    found = summed(
        record("a", attempt=2, score=1.0),
        record("a", attempt=1, **in_error()),
        record("b", attempt=1, score=0.5),
        record("b", attempt=2, **in_error()),
        record("c", score=1.0),
        record("d", target=None, score=None),
    )
    assert found.retried == Retried(
        n=2, recovered=1, accuracy_first_tries=pytest.approx(1 / 3), score_first_tries=pytest.approx(0.5)
    )


@pytest.mark.parametrize(("n_parts", "is_shown"), [(1, False), (2, True), (MAX_PARTS, True), (MAX_PARTS + 1, False)])
def test_a_score_of_two_to_twelve_parts_is_summarised(n_parts: int, is_shown: bool, record: Make) -> None:
    parts = {f"p{place}": place % 2 for place in range(n_parts)}
    found = summed(record("a", score=1.0, parts=parts)).parts
    assert {name: (each.score, each.n) for name, each in found.items()} == (
        {name: (value, 1) for name, value in parts.items()} if is_shown else {}
    )


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_one_part_that_is_no_share_hides_all(value: float, record: Make) -> None:
    records = [record("a", score=1.0, parts={"x": 1.0, "y": 0.0}), record("b", parts={"x": value, "y": 0.5})]
    assert summed(*records).parts == {} and summed(records[0]).parts != {}
    unscored = record("b", target=None, score=None, parts={"x": value, "y": 0.5})
    assert summed(records[0], unscored).parts["x"].n == 1


def test_a_tag_with_one_value_is_not_shown_and_very_many_are_cut(record: Make) -> None:
    records = [record(f"q{place:02}", score=float(place == 0)) for place in range(MAX_TAG_VALUES + 2)]

    def tagged(n_values: int) -> dict[str, Counts]:
        tags = {each.sample_id: {"topic": f"t{place % n_values:02}", "lone": "x"} for place, each in enumerate(records)}
        found = summed(*records, tags=tags).by_tag
        assert "lone" not in found
        return found.get("topic", {})

    assert {name: each.n for name, each in tagged(2).items()} == {"t00": 16, "t01": 16}
    whole = {name: each.n for name, each in tagged(MAX_TAG_VALUES).items()}
    assert len(whole) == MAX_TAG_VALUES and whole["t00"] == whole["t01"] == 2 and whole["t29"] == 1
    cut = tagged(MAX_TAG_VALUES + 1)
    assert list(cut)[-1] == "(1 other values)" and len(cut) == MAX_TAG_VALUES + 1
    assert (cut["(1 other values)"].n, "t30" in cut, cut["t00"].n) == (1, False, 2)


@pytest.mark.parametrize(
    ("sizes", "peak"), [((), None), ((None,), None), ((0.0,), None), ((5.0, 9.0, 7.0), 9.0), ((None, 3.0), 3.0)]
)
def test_the_memory_is_that_of_the_largest_session(sizes: tuple[float | None, ...], peak: float | None) -> None:
    sessions = tuple(SessionSummary(peak_memory_mb=each) for each in sizes)
    assert summed(sessions=sessions).peak_memory_mb == peak
