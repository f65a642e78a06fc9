"""Tango's interval against its definition, computed the slow way."""

import math

import pytest
from scipy.optimize import minimize_scalar

from eval.analysis.statistics.paired_tests import DifferenceSums, compute_paired_interval, compute_score_statistic


def compute_tango(wins: int, losses: int, n: int) -> tuple[float, float]:
    """Return the interval of one right-or-wrong answer to each of n questions."""
    return compute_paired_interval(DifferenceSums(n, wins, losses, wins + losses, max_weight=1))


def slow_score(difference: float, wins: int, losses: int, n: int) -> float:
    """The likelihood maximised by trying, under the constraint that the shares' difference is the given one."""

    def unlikely(share_lost: float) -> float:
        share_won = share_lost + difference
        shares = ((wins, share_won), (losses, share_lost), (n - wins - losses, 1 - share_won - share_lost))
        return -sum(count * math.log(max(share, 1e-300)) for count, share in shares if count)

    bounds = (max(0.0, -difference), (1 - difference) / 2)
    lost = minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x
    return (wins - losses - n * difference) / math.sqrt(n * (2 * lost + difference - difference**2))


@pytest.mark.parametrize(
    ("wins", "losses", "n"), [(8, 4, 20), (6, 0, 53), (1, 1, 20), (0, 3, 53), (40, 20, 165), (5, 0, 165)]
)
def test_a_score_test_just_does_not_reject_its_ends(wins: int, losses: int, n: int) -> None:
    for end, sign in zip(compute_tango(wins, losses, n), (1, -1), strict=True):
        assert slow_score(end, wins, losses, n) == pytest.approx(sign * 1.959964, abs=1e-3)
        assert compute_score_statistic(end, wins, losses, n) == pytest.approx(sign * 1.959964, abs=1e-5)


def test_without_any_difference_it_is_as_wide_as_the_number_of_questions_makes_it() -> None:
    z2 = 1.959964**2
    for n in (5, 20, 165):
        low, high = compute_tango(0, 0, n)
        assert (low, high) == (pytest.approx(-z2 / (n + z2), abs=1e-6), pytest.approx(z2 / (n + z2), abs=1e-6))
