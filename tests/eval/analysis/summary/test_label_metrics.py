"""Precision, recall, F1 and the confusion matrix of labels."""

from collections.abc import Callable
from random import Random

import pytest

from eval.analysis.summary.rare_numbers import NO_ANSWER, OTHER, OTHER_TARGET, LabelSummary
from eval.reports.rare_notes import describe_labels
from eval.runs.record import Record
from tests.eval.stored_run import summarise_records

Make = Callable[..., Record]
NAMES = ("billing", "login", "refund")
FAILED = {"answer": None, "score": None, "error": "x", "error_class": "infrastructure"}


@pytest.fixture
def labels_of(record: Make) -> Callable[..., LabelSummary]:
    def summarised(*pairs: tuple[str, str | None], epochs: int = 1) -> LabelSummary:
        """A pair a sample: its target and its answer; None: it failed."""
        records = []
        for number, (target, answer) in enumerate(pairs):
            for epoch in range(1, epochs + 1):
                right = answer is not None and answer.lower() == target
                facts = FAILED if answer is None else {"answer": answer, "score": float(right)}
                records.append(record(f"q{number}", epoch=epoch, target=target, **facts))
        found = summarise_records(records, labels=list(NAMES), epochs=epochs).labels
        assert found
        return found

    return summarised


def test_failures_are_a_column_of_their_own_and_count_in_the_recall(labels_of: Callable[..., LabelSummary]) -> None:
    found = labels_of(
        ("billing", "Billing"), ("billing", "billing"), ("billing", "login"), ("billing", None),
        ("login", "login"), ("login", "it is the login page"), ("refund", " "), ("feature", "login"),
    )  # fmt: skip
    assert found.confusion == {
        "billing": {"billing": 2, "login": 1, NO_ANSWER: 1},
        "login": {"login": 1, OTHER: 1},
        "refund": {NO_ANSWER: 1},
        OTHER_TARGET: {"login": 1},
    }
    numbers = {
        name: (each.recall.n, each.precision.n, each.precision.value, each.recall.value, each.f1)
        for name, each in found.by_label.items()
    }
    assert numbers == {
        "billing": (4, 2, 1.0, 0.5, pytest.approx(2 / 3)),
        "login": (2, 3, pytest.approx(1 / 3), 0.5, pytest.approx(0.4)),
        "refund": (1, 0, None, 0.0, 0.0),
    }
    assert found.macro_f1 == pytest.approx((2 / 3 + 0.4 + 0) / 3)
    for each in found.by_label.values():
        low, high = each.recall.ci95 or (1.0, 0.0)
        assert low <= (each.recall.value or 0.0) <= high and low < high


def test_an_answer_that_the_scorer_accepts_is_the_target(record: Make) -> None:
    kept = [
        record("a", target="login", answer="It is login.", score=1.0),
        record("b", target="billing", answer="login"),
    ]
    found = summarise_records(kept, labels=list(NAMES)).labels
    assert found and found.confusion == {"login": {"login": 1}, "billing": {"login": 1}}


def test_the_figures_are_those_of_the_textbook(labels_of: Callable[..., LabelSummary]) -> None:
    draw = Random(3)
    pairs = [(draw.choice(NAMES), draw.choice(NAMES)) for _ in range(60)]
    found = labels_of(*pairs)
    expected = []
    for name in NAMES:
        right = sum(target == answer == name for target, answer in pairs)
        precision = right / sum(answer == name for _, answer in pairs)
        recall = right / sum(target == name for target, _ in pairs)
        expected.append(2 * precision * recall / (precision + recall))
        assert found.by_label[name].f1 == pytest.approx(expected[-1])
    assert found.macro_f1 == pytest.approx(sum(expected) / 3)


def test_without_labels_or_before_the_end_there_is_less_to_say(record: Make) -> None:
    assert summarise_records([record("a")]).labels is None
    missing = record("b", target="login", **{**FAILED, "error_class": "not_run"})
    found = summarise_records([record("a", target="login"), missing], labels=list(NAMES)).labels
    assert found and found.by_label["login"].recall.ci95 is None
    assert found.confusion["login"][NO_ANSWER] == 1


def test_the_macro_f1_of_an_incomplete_run_is_no_bound(labels_of: Callable[..., LabelSummary]) -> None:
    """What is wrong and comes later takes precision from the labels that it is given."""
    early = labels_of(("billing", "billing"), ("login", None), ("login", None))
    late = labels_of(("billing", "billing"), ("login", "billing"), ("login", "billing"))
    assert (early.macro_f1, late.macro_f1) == (0.5, 0.25)
    assert describe_labels(early, incomplete=True) == "macro F1 50.0% so far over 2 labels"
    assert " so far" not in describe_labels(late, incomplete=False)
