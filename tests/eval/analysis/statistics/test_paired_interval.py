"""The paired interval: against its definition, by its properties, and against the test that gives p."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.analysis.statistics.paired_tests import (
    DifferenceSums,
    Pair,
    compute_paired_interval,
    compute_paired_statistic,
    run_paired_test,
)

fifths = st.lists(st.integers(-5, 5).map(lambda each: each / 5), min_size=2, max_size=60)
graded = st.lists(st.floats(-1, 1), min_size=2, max_size=60)


def compute_tango(wins: int, losses: int, n: int) -> tuple[float, float]:
    """Return the interval of one right-or-wrong answer to each of n questions."""
    return compute_paired_interval(DifferenceSums(n, wins, losses, wins + losses, max_weight=1))


def as_pairs(differences: list[float]) -> list[Pair]:
    """Five right-or-wrong answers of each side to every question."""
    rights = [round(5 * each) for each in differences]
    return [Pair([0] * 5, [1] * each + [0] * (5 - each)) if each >= 0
            else Pair([1] * -each + [0] * (5 + each), [0] * 5) for each in rights]  # fmt: skip


def sum_them(differences: list[float], epochs: int) -> DifferenceSums:
    """As `run_paired_test` does."""
    is_graded = any(each * epochs % 1 for each in differences)
    gained, lost = (sum(max(sign * each, 0.0) for each in differences) for sign in (1, -1))
    squares = sum(each**2 for each in differences) + (0.5 / epochs if is_graded else 0.0)
    return DifferenceSums(len(differences), gained, lost, squares, math.inf if is_graded else epochs)


@given(fifths | graded, st.sampled_from([1, 5]), st.sampled_from([0.01, 0.05, 0.2]))
def test_it_is_all_differences_that_the_test_does_not_reject(
    differences: list[float], epochs: int, alpha: float
) -> None:
    sums = sum_them(differences, epochs)
    low, high = compute_paired_interval(sums, alpha)
    critical = {0.01: 2.575829, 0.05: 1.959964, 0.2: 1.281552}[alpha]
    for difference in np.linspace(-0.999, 0.999, 101).tolist():
        if min(abs(difference - low), abs(difference - high)) > 1e-6:
            assert (abs(compute_paired_statistic(difference, sums)) < critical) == (low < difference < high)


@given(fifths | graded, st.sampled_from([1, 5]))
def test_it_mirrors_holds_what_was_seen_and_grows_with_the_level(differences: list[float], epochs: int) -> None:
    sums = sum_them(differences, epochs)
    low, high = compute_paired_interval(sums)
    mirrored = compute_paired_interval(sum_them([-each for each in differences], epochs))
    assert mirrored == (pytest.approx(-high, abs=1e-9), pytest.approx(-low, abs=1e-9))
    seen = sum(differences) / len(differences)
    assert -1 <= low <= seen + 1e-9 and seen - 1e-9 <= high <= 1
    assert high - low > 0
    widths = [high - low for low, high in (compute_paired_interval(sums, alpha) for alpha in (0.2, 0.05, 0.02, 0.001))]
    assert all(narrow <= wide + 1e-9 for narrow, wide in pairwise(widths))


def test_wins_and_losses_have_tangos_interval_and_repeats_of_the_same_answers_add_nothing() -> None:
    once = [1.0] * 8 + [-1.0] * 4 + [0.0] * 8
    assert compute_paired_interval(sum_them(once, 1)) == compute_tango(8, 4, 20)
    assert compute_paired_interval(sum_them(once, 5)) == compute_tango(8, 4, 20)


@pytest.mark.parametrize(("n", "wins", "losses"), [(20, 0.05, 0), (53, 0.02, 0), (53, 0, 0.025), (165, 0.02, 0)])
def test_it_contains_the_truth_where_one_side_never_loses(n: int, wins: float, losses: float) -> None:
    """Five epochs that agree: Student's interval contained the truth in 62 to 92 of 100 cases here."""
    random, held = np.random.default_rng(n), 0
    for _ in range(300):
        outcomes = random.choice([1, -1, 0], size=n, p=[wins, losses, 1 - wins - losses]).tolist()
        interval = run_paired_test(as_pairs(outcomes)).ci95
        assert interval
        held += interval[0] <= wins - losses <= interval[1]
    assert held >= 0.93 * 300


@given(fifths, st.sampled_from([0.01, 0.03, 0.05]))
def test_without_significance_it_contains_zero(differences: list[float], alpha: float) -> None:
    result = run_paired_test(as_pairs(differences))
    interval = result.compute_interval(alpha)
    assert interval
    if result.p > alpha:
        assert interval[0] <= 0 <= interval[1]
