"""The paired statistics against scipy's own tests and by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import given as drawn_from
from hypothesis import strategies as st
from scipy import stats

from eval.analysis.statistics.paired_tests import (
    SIGN_FLIP,
    SIGN_FLIP_DRAWN,
    Pair,
    adjust_p_values,
    compute_smallest_difference,
    run_paired_test,
)


def pairs(first: Any, second: Any) -> list[Pair]:
    """Of two arrays, a row a question and a column an epoch."""
    return [Pair(a, b) for a, b in zip(np.atleast_2d(first).tolist(), np.atleast_2d(second).tolist(), strict=True)]


def binary(n: int, epochs: int, seed: int, shares: Sequence[float] = (0.4, 0.55)) -> list[Pair]:
    random = np.random.default_rng(seed)
    return pairs(*(random.binomial(1, share, (n, epochs)) for share in shares))


def tried_by_scipy(given: Sequence[Pair], epochs: int) -> Any:
    """In whole numbers: scipy takes equal sums of fractions for different ones where their last digits differ."""
    won = [round(pair.difference * epochs) for pair in given]
    return stats.permutation_test(
        (won,), np.mean, permutation_type="samples", n_resamples=2 ** len(won), vectorized=True
    )


def test_partial_credit_with_few_questions_tries_all_signs_and_with_many_draws_them() -> None:
    random = np.random.default_rng(4)
    few, many = (pairs(random.random((n, 2)), random.random((n, 2))) for n in (8, 60))
    signs = np.array(np.meshgrid(*[[-1, 1]] * 8)).reshape(8, -1)
    differences = np.array([pair.difference for pair in few])
    p = np.mean(np.abs(differences @ signs) >= abs(differences.sum()) - 1e-12)
    assert (run_paired_test(few).p, run_paired_test(few).test) == (pytest.approx(p), SIGN_FLIP)
    result = run_paired_test(many)
    assert result.test == SIGN_FLIP_DRAWN
    assert result == run_paired_test(many), "the seed is fixed"
    near = stats.ttest_1samp([pair.difference for pair in many], 0).pvalue
    assert result.p == pytest.approx(near, abs=0.02)


def test_one_graded_difference_is_no_evidence() -> None:
    result = run_paired_test([Pair((0.5,), (0.7,)), Pair((0.5,), (0.5,)), Pair((1,), (1,))])
    assert (result.p, result.test) == (1.0, SIGN_FLIP)


def test_epochs_that_agree_are_no_new_questions() -> None:
    once = binary(30, 1, 8)
    thrice = [Pair(list(pair.first) * 3, list(pair.second) * 3) for pair in once]
    assert run_paired_test(thrice).p == pytest.approx(run_paired_test(once).p)


def test_equal_means_of_unequal_epochs_are_a_tie() -> None:
    assert 0.1 + 0.2 != 0.3, "the last digit must not decide who has won"
    result = run_paired_test([Pair((1, 0, 0), (0, 0, 1, 1, 0, 0)), Pair((1,), (1, 1)), Pair((0.1, 0.2), (0.3, 0.0))])
    assert (result.ties, result.p, result.epochs) == (3, 1.0, 1)


def test_one_question_says_nothing_about_others() -> None:
    result = run_paired_test([Pair((0, 1), (1, 1))])
    assert (result.ci95, result.smallest_difference, result.p) == (None, None, 1.0)


def test_holm_by_hand_and_in_the_given_order() -> None:
    assert adjust_p_values([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_p_values([0.5, 0.001]) == pytest.approx([0.5, 0.002])
    assert adjust_p_values([0.9, 0.8]) == [1.0, 1.0]
    assert adjust_p_values([]) == []


@drawn_from(st.integers(0, 40), st.integers(0, 40), st.integers(0, 120))
def test_one_epoch_agrees_with_scipy_whatever_the_table(wins: int, losses: int, ties: int) -> None:
    assume(wins + losses + ties >= 2)
    result = run_paired_test([Pair((0,), (1,))] * wins + [Pair((1,), (0,))] * losses + [Pair((1,), (1,))] * ties)
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert result.p == pytest.approx(expected)
    assert (result.wins, result.losses, result.ties) == (wins, losses, ties)
    assert result.ci95 is not None
    assert -1 <= result.ci95[0] <= result.difference <= result.ci95[1] <= 1


@drawn_from(st.integers(2, 10), st.integers(2, 5), st.integers(0, 10**6))
def test_several_epochs_agree_with_scipys_permutation_test(n: int, epochs: int, seed: int) -> None:
    given = binary(n, epochs, seed)
    tried = tried_by_scipy(given, epochs)
    expected = tried.pvalue if any(pair.difference for pair in given) else 1.0
    assert run_paired_test(given).p == pytest.approx(expected)


@pytest.mark.parametrize(("error", "n", "alpha"), [(0.05, 20, 0.05), (0.1, 53, 0.01), (0.3, 2, 0.05), (0.4, 100, 0.05)])
def test_the_smallest_difference_is_seen_in_80_of_100_cases_and_at_most_1(error: float, n: int, alpha: float) -> None:
    expected = (stats.t.ppf(1 - alpha / 2, n - 1) + stats.t.ppf(0.8, n - 1)) * error
    found = compute_smallest_difference(error, n, alpha)
    assert found == (pytest.approx(expected) if expected <= 1 else None)
    assert compute_smallest_difference(None, n) is None


def test_an_interval_holds_0_unless_p_is_at_most_its_level() -> None:
    result = run_paired_test([Pair((0,), (1,))] * 6 + [Pair((1,), (1,))] * 40)
    at, below = result.compute_interval(0.03125), result.compute_interval(0.03124)
    assert result.p == 0.03125 and at and below
    assert at[0] > 0 and below[0] == 0.0
    losing = run_paired_test([Pair((1,), (0,))] * 6 + [Pair((1,), (1,))] * 40)
    at, below = losing.compute_interval(0.03125), losing.compute_interval(0.03124)
    assert at and below and at[1] < 0 and below[1] == 0.0
