"""The difference of two macro F1: its value is that of the summaries, and its interval holds the truth."""

import random

import pytest

from eval.analysis.statistics.macro_f1 import Cell, measure_macro_f1
from eval.analysis.statistics.regression import judge_effect
from eval.analysis.summary.label_metrics import NO_ANSWER, summarise_labels
from eval.analysis.summary.rows import build_row
from eval.scorers.labels import LabelSet
from tests.eval.stored_run import answered

NAMES = ("a", "b", "c", "never a target")
Samples = list[tuple[list[Cell], list[Cell]]]


def drawn(n: int, epochs: int, accuracies: tuple[float, float], seed: int) -> Samples:
    """Targets 7 : 2 : 1; a wrong answer is another label, or none."""
    draw, made = random.Random(seed), []
    for _ in range(n):
        target, hard = draw.choices(NAMES[:3], (7, 2, 1))[0], 0.3 * (draw.random() - 0.5)
        wrong = [*(name for name in NAMES if name != target), NO_ANSWER]
        sides = (
            [(target, target if draw.random() < share + hard else draw.choice(wrong)) for _ in range(epochs)]
            for share in accuracies
        )
        made.append(tuple(sides))
    return made  # type: ignore[return-value]


def summarised(samples: Samples, side: int) -> float | None:
    labels, rows = LabelSet(NAMES), []
    for place, sample in enumerate(samples):
        for epoch, (target, answer) in enumerate(sample[side], 1):
            given = None if answer == NO_ANSWER else answer
            record = answered(f"q{place}", given, target, epoch=epoch, error=None if given else "E: no")
            rows.append(build_row(record, labels))
    found = summarise_labels(rows, NAMES, incomplete=False)
    return found and found.macro_f1


def test_both_values_are_those_of_the_summaries() -> None:
    samples = drawn(80, 3, (0.8, 0.6), 1)
    effect = measure_macro_f1(samples, NAMES)
    assert effect.first == pytest.approx(summarised(samples, 0))
    assert effect.second == pytest.approx(summarised(samples, 1))
    assert effect.gain == pytest.approx(effect.second - effect.first)


def test_contributions_are_what_the_mean_loses_without_each_question() -> None:
    samples = [
        ([(target, first)], [(target, second)]) for target, first, second in ("aaa", "aab", "aba", "aaa", "bbb", "bba")
    ]
    effect = measure_macro_f1(samples, NAMES)
    assert effect.extra == pytest.approx(0.5 * (6 / 4 + 6 / 2) / 2**2)
    for place, pair in enumerate(effect.contributions):
        others = measure_macro_f1(samples[:place] + samples[place + 1 :], NAMES)
        assert pair.first == pytest.approx([5 * (effect.first - others.first)])
        assert pair.second == pytest.approx([5 * (effect.second - others.second)])


def test_runs_that_answer_alike_need_questions_to_pass() -> None:
    few, many = (measure_macro_f1([(side, side) for side, _ in drawn(n, 1, (0.9, 0.9), 2)], NAMES) for n in (20, 2000))
    assert judge_effect(few, 0.02, 0.05).verdict == "inconclusive"
    assert judge_effect(many, 0.02, 0.05).verdict == "pass"


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epochs"), [(53, 1), (165, 5)])
@pytest.mark.parametrize("accuracies", [(0.8, 0.8), (0.8, 0.7)])
def test_the_interval_holds_the_truth(n: int, epochs: int, accuracies: tuple[float, float]) -> None:
    truth, missed = measure_macro_f1(drawn(60_000, 1, accuracies, 3), NAMES).gain, [0, 0]
    for seed in range(400):
        low, high = measure_macro_f1(drawn(n, epochs, accuracies, 10 + seed), NAMES).compute_bounds(0.05)
        missed = [missed[0] + (truth < low), missed[1] + (truth > high)]
    assert max(missed) <= 36, "nominal 20 of 400; standard error 4.4"
