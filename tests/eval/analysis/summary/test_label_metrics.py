"""Precision, recall, F1 and the confusion matrix of labels."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from eval.analysis.statistics.intervals import compute_clustered_interval, compute_share_interval
from eval.analysis.summary.label_metrics import (
    NO_ANSWER,
    OTHER,
    OTHER_TARGET,
    compute_f1_interval,
    compute_macro_interval,
    summarise_labels,
)
from eval.analysis.summary.rows import build_row
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import LabelNumbers, LabelSummary
from eval.reports.notes import describe_labels
from eval.runs.record import Record
from eval.scorers.labels import LabelSet
from tests.eval.stored_run import answered

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
        found = summarise(records, RunDetails(run_id="r", labels=LabelSet(NAMES), epochs=epochs)).labels
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
    assert (found.n_other, found.n_no_answer) == (1, 2)
    numbers = {
        name: (each.n, each.n_given, each.precision, each.recall, each.f1) for name, each in found.by_label.items()
    }
    assert numbers == {
        "billing": (4, 2, 1.0, 0.5, pytest.approx(2 / 3)),
        "login": (2, 3, pytest.approx(1 / 3), 0.5, pytest.approx(0.4)),
        "refund": (1, 0, None, 0.0, 0.0),
    }
    assert found.macro_f1 == pytest.approx((2 / 3 + 0.4 + 0) / 3)
    low, high = found.macro_f1_ci95 or (1.0, 0.0)
    assert 0 <= low < found.macro_f1 < high < 1
    for each in found.by_label.values():
        for value, bounds in ((each.recall, each.recall_ci95), (each.f1, each.f1_ci95)):
            assert bounds and bounds[0] <= (value or 0.0) <= bounds[1] and bounds[0] < bounds[1]


def test_an_answer_that_the_scorer_accepts_is_the_target(record: Make) -> None:
    kept = [
        record("a", target="login", answer="It is login.", score=1.0),
        record("b", target="billing", answer="login"),
    ]
    found = summarise(kept, RunDetails(run_id="r", labels=LabelSet(NAMES))).labels
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


@pytest.mark.parametrize(("n", "right"), [(20, 0.35), (53, 0.35), (53, 0.85)])
def test_the_interval_of_the_macro_f1_contains_it(n: int, right: float) -> None:
    """Where the bootstrap's had it in 86 of 100 cases (20 questions)."""
    random, priors, held = np.random.default_rng(n), (0.5, 0.3, 0.2), 0
    wrong = sum(priors) - np.array(priors)
    true = np.mean([2 * p * right / (p + p * right + (1 - right) * q / 2) for p, q in zip(priors, wrong, strict=True)])
    for _ in range(300):
        targets = random.choice(3, n, p=priors)
        answers = np.where(random.random(n) < right, targets, (targets + random.integers(1, 3, n)) % 3)
        cells = [[(NAMES[a], NAMES[b])] for a, b in zip(targets.tolist(), answers.tolist(), strict=True)]
        bounds = compute_macro_interval(cells, NAMES)
        assert bounds
        held += bounds[0] <= true <= bounds[1]
    assert held >= 0.93 * 300


def test_all_right_is_no_certainty_and_repeats_add_none(labels_of: Callable[..., LabelSummary]) -> None:
    once, thrice = (labels_of(*[(name, name) for name in NAMES] * 5, epochs=epochs) for epochs in (1, 3))
    for found in (once, thrice):
        assert (found.macro_f1, found.macro_f1_ci95) == (1.0, (pytest.approx(0.735, abs=1e-3), 1.0))
        assert found.by_label["login"].f1_ci95 == (pytest.approx(0.647, abs=1e-3), 1.0)


def test_without_labels_or_before_the_end_there_is_less_to_say(record: Make) -> None:
    assert summarise([record("a")], RunDetails(run_id="r")).labels is None
    missing = record("b", target="login", **{**FAILED, "error_class": "not_run"})
    found = summarise([record("a", target="login"), missing], RunDetails(run_id="r", labels=LabelSet(NAMES))).labels
    assert found and (found.macro_f1_ci95, found.by_label["login"].recall_ci95) == (None, None)
    assert found.confusion["login"][NO_ANSWER] == 1


def test_the_macro_f1_of_an_incomplete_run_is_no_bound(labels_of: Callable[..., LabelSummary]) -> None:
    """What is wrong and comes later takes precision from the labels that it is given."""
    early = labels_of(("billing", "billing"), ("login", None), ("login", None))
    late = labels_of(("billing", "billing"), ("login", "billing"), ("login", "billing"))
    assert (early.macro_f1, late.macro_f1) == (0.5, 0.25)
    assert describe_labels(early, incomplete=True).startswith("macro F1 50.0% (")
    assert " so far over 2 labels; " in describe_labels(early, incomplete=True)
    assert " so far" not in describe_labels(late, incomplete=False)


TWO = ("yes", "no")


def test_the_interval_of_the_macro_f1_by_hand() -> None:
    """Of each sample and label: how often it is right, and how often it is the target or the answer."""
    samples = [[("yes", "yes"), ("yes", "yes")], [("yes", "no")], [("no", "no")], [("no", "yes")]]
    named = np.array([[4, 0], [1, 1], [0, 2], [1, 1]])
    right = np.array([[2, 0], [0, 0], [0, 1], [0, 0]])
    f1 = 2 * right.sum(0) / named.sum(0)
    assert f1.tolist() == [pytest.approx(4 / 6), pytest.approx(2 / 4)]
    macro = f1.mean()
    slopes = (2 * right / named.sum(0) - 2 * right.sum(0) * named / named.sum(0) ** 2).mean(1)
    variance = (slopes**2).sum() * 4 / 3 + 0.5 / 4**2
    effective = min(macro * (1 - macro) / variance, 5)
    expected = compute_share_interval(macro, effective * (4 - 2) / 4, 4)
    assert compute_macro_interval(samples, TWO) == pytest.approx(expected)
    extra = ("unused", *TWO)
    assert compute_macro_interval(samples, extra) == pytest.approx(expected), "a label that is no target says nothing"


def test_answers_and_targets_that_are_no_labels_count_where_the_other_is_one() -> None:
    samples = [[("yes", "yes")]] * 3 + [[("yes", OTHER)], [(OTHER_TARGET, "yes")], [("no", "no")], [("no", "no")]]
    # yes: right 3, named 2·3 + 2; no: right 2, named 4. Slopes of yes: 2(r·8 - 3·n)/64, of no: 2(r·4 - 2·n)/16 = 0
    macro = (6 / 8 + 1) / 2
    yes = [2 * (8 - 6) / 64] * 3 + [2 * (0 - 3) / 64] * 2
    variance = sum((each / 2) ** 2 for each in yes) * 7 / 6 + 0.5 / 49
    effective = min(macro * (1 - macro) / variance, 7)
    assert compute_macro_interval(samples, TWO) == pytest.approx(compute_share_interval(macro, effective * 5 / 7, 7))


def test_as_few_samples_as_labels_have_the_interval_of_all_right_answers() -> None:
    pair = [[("yes", "yes"), ("yes", "no")], [("no", "no")]]
    assert compute_macro_interval(pair, TWO) == compute_clustered_interval([(1, 2), (1, 1)])
    assert compute_macro_interval([*pair, [("no", "no")]], TWO) != compute_clustered_interval([(1, 2), (1, 1), (1, 1)])
    for answer, share in (("same", 1.0), (OTHER, 0.0)):
        cells = [[(name, name if answer == "same" else answer)] for name in TWO * 3]
        assert compute_macro_interval(cells, TWO) == compute_share_interval(share, 6 - 2, 6)


def test_the_numbers_of_a_label_whole(labels_of: Callable[..., LabelSummary]) -> None:
    found = labels_of(("billing", "billing"), ("billing", "login"), ("refund", "billing"), ("login", None))
    by_f1 = compute_clustered_interval([(1, 1), (0, 1), (0, 1)])
    assert by_f1 is not None
    assert found.by_label["billing"] == LabelNumbers(
        n=2, n_given=2, precision=0.5, precision_ci95=compute_clustered_interval([(1, 1), (0, 1)]), recall=0.5,
        recall_ci95=compute_clustered_interval([(1, 1), (0, 1)]), f1=0.5,
        f1_ci95=(2 * by_f1[0] / (1 + by_f1[0]), 2 * by_f1[1] / (1 + by_f1[1])),
    )  # fmt: skip
    refund = found.by_label["refund"]
    assert (refund.n, refund.n_given, refund.precision, refund.precision_ci95, refund.recall, refund.f1) == (
        1, 0, None, None, 0.0, 0.0,
    )  # fmt: skip
    assert found.macro_f1 == pytest.approx((0.5 + 0 + 0) / 3)
    assert compute_f1_interval("nothing", [[("billing", "login")]]) is None
    assert compute_f1_interval("billing", [[("billing", "billing"), ("login", "login")]]) == (
        pytest.approx(2 * 0.025 / 1.025), 1.0,
    )  # fmt: skip


def test_an_incomplete_run_has_numbers_and_no_interval() -> None:
    rows = [
        build_row(answered("q1", "yes", "yes"), LabelSet(TWO)),
        build_row(answered("q2", "odd", "no"), LabelSet(TWO)),
        build_row(answered("q3", "", "17"), LabelSet(TWO)),
        build_row(answered("q4", "yes", None), LabelSet(TWO)),
    ]
    for incomplete in (False, True):
        found = summarise_labels(rows, TWO, incomplete)
        assert found is not None
        numbers = found.by_label["yes"]
        bounds = (found.macro_f1_ci95, numbers.precision_ci95, numbers.recall_ci95, numbers.f1_ci95)
        assert [each is None for each in bounds] == [incomplete] * 4
        assert (found.macro_f1, found.n_other, found.n_no_answer) == (0.5, 1, 1)
        assert found.confusion == {"yes": {"yes": 1}, "no": {OTHER: 1}, OTHER_TARGET: {NO_ANSWER: 1}}
    assert summarise_labels(rows[3:], TWO, False) is None and summarise_labels(rows, (), False) is None
    nothing = summarise_labels(rows[2:3], TWO, False)
    assert nothing is not None and (nothing.macro_f1, nothing.macro_f1_ci95) == (None, None)
