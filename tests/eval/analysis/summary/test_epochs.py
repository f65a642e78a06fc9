import itertools
from collections.abc import Callable, Iterable

import pytest

from eval.analysis.statistics.intervals import compute_share_interval
from eval.analysis.summary.measures import shorten_record
from eval.analysis.summary.rare_numbers import EpochNumbers, estimate_pass_at, estimate_pass_hat, summarise_epochs
from eval.runs.record import Record
from eval.scorers.score import normalise_answer

Make = Callable[..., Record]


@pytest.mark.parametrize(("n", "correct", "k"), itertools.product((1, 4, 5), range(6), range(1, 6)))
def test_estimators_are_the_shares_of_all_draws_of_k(n: int, correct: int, k: int) -> None:
    if correct > n or k > n:
        return
    draws = list(itertools.combinations([True] * correct + [False] * (n - correct), k))
    assert estimate_pass_at(correct, n, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert estimate_pass_hat(correct, n, k) == pytest.approx(sum(map(all, draws)) / len(draws))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("STRASSE", "straße", True),
        ("a  b\n", "a b", True),
        ("17", "17.0", True),
        ("-0", "0", True),
        ("50%", "$50", True),
        ("1,5", "15", True),
        ("inf", "nan", False),
        ("17", "17 apples", False),
    ],
)
def test_answers_are_compared_in_their_normal_form(one: str, other: str, same: bool) -> None:
    assert (normalise_answer(one) == normalise_answer(other)) is same


def rows(record: Make, verdicts: Iterable[str]) -> list[Record]:
    """`101`: a question answered right, wrong, right; `1-`: the second epoch is missing."""
    return [
        shorten_record(record(f"q{n}", epoch=epoch, answer=mark, score=float(mark)))
        for n, marks in enumerate(verdicts)
        for epoch, mark in enumerate(marks, 1)
        if mark != "-"
    ]


def found(record: Make, *verdicts: str, epochs: int = 3) -> EpochNumbers:
    numbers = summarise_epochs(rows(record, verdicts), epochs)
    assert numbers is not None
    return numbers


def test_each_number_stands_with_its_interval(record: Make) -> None:
    numbers = found(record, "111", "100", "000", "110")
    assert [numbers.pass_at[k].value for k in "123"] == pytest.approx([0.5, (1 + 2 / 3 + 0 + 1) / 4, 0.75])
    assert [numbers.pass_hat[k].value for k in "123"] == pytest.approx([0.5, (1 + 0 + 0 + 1 / 3) / 4, 0.25])
    assert numbers.pass_at["3"].ci95 == pytest.approx(compute_share_interval(3 / 4, 4, 4))
    assert numbers.pass_hat["3"].ci95 == pytest.approx(compute_share_interval(1 / 4, 4, 4))
    assert numbers.pass_at["1"] == numbers.pass_hat["1"]


def test_an_epoch_that_is_missing_counts_as_wrong(record: Make) -> None:
    assert found(record, "11-", "111").pass_hat["3"].value == 0.5
    assert found(record, "1--").pass_at["1"].value == pytest.approx(1 / 3)


def test_one_epoch_and_questions_without_gold_have_no_such_numbers(record: Make) -> None:
    assert summarise_epochs(rows(record, ["1", "0"]), 1) is None
    unscored = [shorten_record(record("q", epoch=epoch, target=None, score=None)) for epoch in (1, 2)]
    assert summarise_epochs(unscored, 2) is None
    assert summarise_epochs([], 3) is None
