"""Interval of the difference of two systems on the same samples: all differences that a score test would not reject.

For one right-or-wrong answer a sample it is Tango's score interval (T. Tango, "Equivalence test and confidence interval
for the difference in proportions for the paired-sample design", Statistics in Medicine 17, 1998). It has a width even
if no sample differs, and contains the truth where one side never loses or seldom wins: there, intervals from the
observed variance alone are far too narrow.

Several or graded answers give each sample a difference d from -1 to 1. Then gained = Σmax(d, 0) and lost = Σmax(-d, 0)
take the place of wins and losses. Such differences vary less than wins and losses with the same sums, so all counts are
multiplied by the ratio of the two second moments about the tested difference D, with m the mean of d:

    weight = (Σ|d|/n - m² + (m - D)²) / (Σd²/n - m² + (m - D)²), cut to 1 … max_weight

At D = 0 the test is then the normal approximation of the sign-flip test, so that interval and p
agree. Coverage: docs/explanation/intervals.md.

    compute_paired_interval(sum_differences([0.2, -0.2, 0.0, 0.6], max_weight=5))    # (-0.3504…, 0.5646…)
    compute_paired_interval(DifferenceSums(20, gained=8, lost=4, squares=12, max_weight=1))    # (-0.1421…, 0.4948…)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from eval.analysis.statistics.intervals import CONFIDENCE, Interval

ALPHA = 1 - CONFIDENCE  # two-sided
_HALVINGS = 50  # of an interval at most 2 wide
_NOTHING = 1e-12  # a second moment, but for rounding


@dataclass(frozen=True)
class DifferenceSums:
    """Sums over the samples' differences; the interval at any level follows from them."""

    n: int
    gained: float  # Σmax(d, 0)
    lost: float  # Σmax(-d, 0)
    squares: float  # Σd²
    max_weight: float  # of one sample: its answers; infinite for graded ones


def sum_differences(differences: Sequence[float], max_weight: float, extra_squares: float = 0.0) -> DifferenceSums:
    """Return the sums of at least one difference.

    Args:
        differences: one a sample, -1 to 1.
        max_weight: right-or-wrong answers of each side to a sample; infinite for graded answers.
        extra_squares: added to the squares, so that few graded answers that happen to be alike do not look certain.
    """
    return DifferenceSums(
        n=len(differences),
        gained=math.fsum(each for each in differences if each > 0),
        lost=-math.fsum(each for each in differences if each < 0),
        squares=math.fsum(each**2 for each in differences) + extra_squares,
        max_weight=max_weight,
    )


def compute_paired_interval(sums: DifferenceSums, alpha: float = ALPHA) -> Interval:
    """Return the bounds, -1 to 1, of the mean difference.

    Args:
        sums: of the samples' differences.
        alpha: two-sided level; of a one-sided bound at level a it is 2a.
    """
    critical = NormalDist().inv_cdf(1 - alpha / 2)

    def end(inner: float, outer: float) -> float:
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2
            if abs(compute_paired_statistic(middle, sums)) < critical:
                inner = middle
            else:
                outer = middle
        return outer

    seen = (sums.gained - sums.lost) / sums.n
    return end(seen, -1.0), end(seen, 1.0)


def compute_paired_statistic(difference: float, sums: DifferenceSums) -> float:
    """Return the distance of the observed mean difference from a hypothetical true one, in standard errors."""
    score = compute_score_statistic(difference, sums.gained, sums.lost, sums.n)
    return math.sqrt(_compute_weight(difference, sums)) * score


def compute_score_statistic(difference: float, wins: float, losses: float, n: int) -> float:
    """Return the distance of the observed difference from a hypothetical true one, in standard errors."""
    linear = -wins - losses + (2 * n - wins + losses) * difference
    constant = -losses * difference * (1 - difference)
    share_lost = (math.sqrt(max(linear**2 - 8 * n * constant, 0.0)) - linear) / (4 * n)  # the likeliest, given it
    variance = n * (2 * share_lost + difference * (1 - difference))
    off = wins - losses - n * difference
    if variance <= 0:
        return 0.0 if off == 0 else math.copysign(math.inf, off)
    return off / math.sqrt(variance)


def _compute_weight(difference: float, sums: DifferenceSums) -> float:
    mean = (sums.gained - sums.lost) / sums.n
    moved = (mean - difference) ** 2 - mean**2
    seen = sums.squares / sums.n + moved
    if seen <= _NOTHING:
        return 1.0
    return min(max(((sums.gained + sums.lost) / sums.n + moved) / seen, 1.0), sums.max_weight)
