"""The verdict on a change: its rule, and by simulation how often it is right (docs/explanation/intervals.md)."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from eval.analysis.comparison.compare_runs import GateResult, judge_difference
from eval.analysis.statistics.paired_tests import Pair, run_paired_test

MARGIN, LEVEL = 0.02, 0.05


def drawn(n: int, epochs: int, loss: float, random: Any, share: float = 0.8, icc: float = 0.5) -> list[Pair]:
    """Questions that differ in difficulty, the same for both runs; the new one's true share is lower by the loss."""
    common = math.sqrt(icc / (1 - icc)) * random.standard_normal(n)
    scale = math.sqrt(1 + icc / (1 - icc))
    chances = (ndtr(scale * ndtri(each) + common)[:, None] for each in (share, share - loss))
    answers = [(random.random((n, epochs)) < each).astype(float).tolist() for each in chances]
    return [Pair(a, b) for a, b in zip(*answers, strict=True)]


def count(n: int, epochs: int, loss: float, comparisons: int, share: float = 0.8, icc: float = 0.5) -> Counter[str]:
    random = np.random.default_rng([n, epochs, round(1000 * loss), round(10 * share), round(10 * icc)])
    made = (run_paired_test(drawn(n, epochs, loss, random, share, icc)) for _ in range(comparisons))
    return Counter(judge_difference(each, MARGIN, LEVEL).verdict for each in made)


def judged(wins: int, losses: int, n: int, margin: float = MARGIN) -> GateResult:
    pairs = [Pair((0,), (1,))] * wins + [Pair((1,), (0,))] * losses + [Pair((1,), (1,))] * (n - wins - losses)
    return judge_difference(run_paired_test(pairs), margin, LEVEL)


def test_the_bounds_decide() -> None:
    passed, failed, undecided = judged(5, 5, 4000), judged(10, 60, 200), judged(5, 5, 100)
    assert (passed.verdict, failed.verdict, undecided.verdict) == ("pass", "fail", "inconclusive")
    assert passed.lower > -MARGIN
    assert failed.upper < -MARGIN
    assert undecided.lower < -MARGIN < undecided.upper
    assert judged(30, 2, 200, margin=0).verdict == "pass", "a gain"
    assert judged(0, 0, 4000, margin=0).verdict == "inconclusive"


def test_few_questions_that_all_end_the_same_do_not_pass() -> None:
    assert judged(0, 0, 100).verdict == "inconclusive"
    assert judged(0, 0, 140).verdict == "pass"


def test_a_difference_that_equal_programs_might_well_show_does_not_fail() -> None:
    found = judged(1, 8, 30)
    assert found.upper < -MARGIN
    assert (found.verdict, found.by_chance) == ("inconclusive", True)


def test_a_program_is_not_failed_by_itself_and_a_real_loss_is_caught() -> None:
    assert count(165, 5, 0.0, 200)["fail"] <= 2
    assert count(165, 5, 0.10, 200)["fail"] >= 180


@pytest.mark.slow
def test_verdicts_are_as_often_right_as_the_docs_say() -> None:
    share, icc = 0.8, 0.5
    for n, epochs in ((20, 1), (53, 5), (165, 5)):
        found = {loss: count(n, epochs, loss, 400, share, icc) for loss in (0.0, 0.01, MARGIN)}
        assert found[0.0]["fail"] <= 6, (n, epochs, "a program compared with itself")
        assert found[0.01]["fail"] <= 400 * LEVEL + 5, (n, epochs, "a loss within the margin")
        assert found[MARGIN]["pass"] <= 400 * LEVEL + 16, (n, epochs, "a loss of the margin; 3.6 standard errors")
    assert count(165, 5, 0.10, 400, share, icc)["fail"] >= 360
