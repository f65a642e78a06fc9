"""Targets count as labels only where they clearly are classes: no set of answers is taken for labels."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eval.benchmarks.dataset import Sample
from eval.scorers.labels import LabelSet, find_labels

CLASSES = ("billing", "login", "refund")


def samples(targets: Sequence[str | None], text: str = "ticket") -> list[Sample]:
    return [Sample(f"{text}-{at}", f"{text} number {at}", target=target) for at, target in enumerate(targets)]


def names(*parts: Sequence[Sample]) -> tuple[str, ...]:
    return find_labels(*parts).names


def test_the_classes_of_a_classifier_are_labels_and_its_rare_targets_are_not() -> None:
    labels = find_labels(samples([*CLASSES * 20, "Paveldel", "chargeback"]), samples(CLASSES * 20, "other"))
    assert labels == LabelSet(CLASSES) and labels
    assert [labels.find(each) for each in ("Billing ", "re fund", "Paveldel", "", None)] == [
        "billing", None, None, None, None,
    ]  # fmt: skip
    assert not LabelSet() and LabelSet().find("billing") is None


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (["0", "1"] * 10, ("0", "1")),
        (["yes", "no"] * 10, ("no", "yes")),
        (["True", "true", "False", "True", "False", "False"] * 5, ("False", "True")),
        (["Not a  bug", "not a bug", "not a bug", "bug", "BUG", "bug"] * 5, ("bug", "not a bug")),
        (["退款", "登录"] * 10, ("登录", "退款")),
        (["yes"] * 40, ()),  # one class is none
        (["yes", "no"] * 4, ()),
        (["yes", "no"] * 5, ("no", "yes")),
        ([None, "yes", "no"] * 5, ("no", "yes")),
        ([], ()),
    ],
)
def test_labels_are_compared_without_case_and_spaces_and_spelt_as_usual(
    targets: list[str | None], expected: tuple[str, ...]
) -> None:
    assert names(samples(targets)) == expected


@example(11, 10, 12)
@given(st.integers(2, 30), st.integers(1, 30), st.integers(0, 40))
def test_facts_that_are_each_asked_in_many_wordings_are_no_labels(facts: int, wordings: int, others: int) -> None:
    targets = [f"fact {at}" for at in range(facts)] * wordings + [f"single {at}" for at in range(others)]
    if wordings < facts:
        assert names(samples(targets)) == ()


def test_what_the_validation_questions_alone_answer_is_no_label() -> None:
    train, val = samples(["yes", "no"] * 20), samples(["yes", "no", "maybe", "maybe"] * 20, "other")
    assert "maybe" in names(val) and names(train, val) == ("no", "yes")


def test_labels_that_are_given_are_the_labels() -> None:
    labels = find_labels(samples(["refund", "Refund", "x"]), given=("refund", " Billing  issue", "REFUND"))
    assert labels == LabelSet(("REFUND", "Billing issue"))
