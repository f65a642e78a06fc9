"""Difference of two systems on the same samples: exact tests, intervals, and the smallest difference they would show.

    result = run_paired_test([Pair((0, 0, 1), (1, 0, 1)), Pair((0, 0, 0), (0, 1, 1))])
    result.difference, result.ci95, result.p      # 0.5, …
    result.compute_interval(alpha=0.02)           # the same at another level
    compare_means([(0.02, 0.01), (0.05, 0.02), (0.03, 0.02)])      # amounts: second - first: -0.0167, -0.0454 to 0.0120

The interval has all differences that a score test would not reject: for one right-or-wrong answer a sample Tango's
(Statistics in Medicine 17, 1998). Several or graded answers give each sample a difference d from -1 to 1: Σmax(d, 0)
and Σmax(-d, 0) take the place of wins and losses. They vary less, so all counts are multiplied by the ratio of the two
second moments about the tested difference D, with m the mean of d:

    weight = (Σ|d|/n - m² + (m - D)²) / (Σd²/n - m² + (m - D)²), cut to 1 … max_weight

At D = 0 this is the normal approximation of the sign-flip test. Coverage: docs/explanation/intervals.md.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

from eval.analysis.statistics.intervals import CONFIDENCE, Interval, compute_t_quantile

ALPHA = 1 - CONFIDENCE  # two-sided
POWER = 0.8
MCNEMAR, SIGN_FLIP, SIGN_FLIP_DRAWN = "exact McNemar", "exact sign-flip", "sign-flip, drawn"
_EXTRA_ANSWERS = 0.5  # differing answers, added to the observed ones
_DRAWS = 49_999
_DRAWS_AT_ONCE = 5_000  # bounds the memory: 8 bytes per sample each
_MOST_UNITS = 100_000_000  # beyond this, counting would take longer than drawing
_SAME = 1e-9  # means of the same scores may differ in their last digits
_HALVINGS = 50  # of an interval at most 2 wide
_NOTHING = 1e-12  # a second moment, but for rounding


class Pair(NamedTuple):
    """The scores, 0 to 1, of both systems' answers to one sample; an error is 0."""

    first: Sequence[float]
    second: Sequence[float]

    @property
    def difference(self) -> float:
        found = math.fsum(self.second) / len(self.second) - math.fsum(self.first) / len(self.first)
        return 0.0 if abs(found) < _SAME else found

    @property
    def epochs(self) -> int:
        return min(len(self.first), len(self.second))


@dataclass(frozen=True)
class DifferenceSums:
    """Sums over the samples' differences; the interval at any level follows from them."""

    n: int
    gained: float  # Σmax(d, 0)
    lost: float  # Σmax(-d, 0)
    squares: float  # Σd²
    max_weight: float  # of one sample: its answers; infinite for graded ones


@dataclass(frozen=True)
class PairedResult:
    """B compared with A; differences are B's mean score minus A's, -1 to 1."""

    n_questions: int
    epochs: int  # answers of each to every question, at least
    difference: float
    ci95: Interval | None  # None: one sample says nothing about others
    p: float  # two-sided: probability of so large a difference if A and B are equally good
    test: str  # name of the test that p is from
    wins: int  # samples on which B is better
    losses: int
    ties: int
    smallest_difference: float | None  # that such samples would show (p < 0.05) in 80 of 100 cases
    sums: DifferenceSums | None = None  # None: one sample

    def compute_interval(self, alpha: float) -> Interval | None:
        """Return the difference's interval at a two-sided level; None: one sample says nothing about others.

        It contains 0 unless p is at most `alpha`: p is exact where the interval is approximate.
        """
        if self.sums is None:
            return None
        low, high = compute_paired_interval(self.sums, alpha)
        return (min(low, 0.0), max(high, 0.0)) if self.p > alpha else (low, high)

    def to_dict(self) -> dict[str, object]:
        return {key: value for key, value in asdict(self).items() if key != "sums"}


def run_paired_test(pairs: Sequence[Pair], seed: int = 0) -> PairedResult:
    """Test whether B differs from A on one sample at least; `seed`: of the draws, if the test cannot be exact."""
    differences = [pair.difference for pair in pairs]
    if _are_binary(pairs) and (counted := _count_flips(pairs, differences)) is not None:
        p, test = counted, MCNEMAR if all(len(scores) == 1 for pair in pairs for scores in pair) else SIGN_FLIP
    else:
        p, test = _draw_flips(differences, seed)
    epochs, n = min(pair.epochs for pair in pairs), len(pairs)
    wins, losses = (sum(sign * each > 0 for each in differences) for sign in (1, -1))
    result = PairedResult(
        n_questions=n,
        epochs=epochs,
        difference=math.fsum(differences) / n,
        ci95=None,
        p=p,
        test=test,
        wins=wins,
        losses=losses,
        ties=n - wins - losses,
        smallest_difference=compute_smallest_difference(compute_standard_error(differences, epochs), n),
        sums=sum_pairs(pairs),
    )
    return replace(result, ci95=result.compute_interval(ALPHA))


def sum_pairs(pairs: Sequence[Pair]) -> DifferenceSums | None:
    """Return the sums that the interval of the difference follows from; None: one sample says nothing about others."""
    if len(pairs) < 2:
        return None
    differences, is_binary = [pair.difference for pair in pairs], _are_binary(pairs)
    extra_squares = 0.0 if is_binary else _EXTRA_ANSWERS  # few graded answers that happen to be alike are not certain
    return DifferenceSums(
        n=len(pairs),
        gained=math.fsum(each for each in differences if each > 0),
        lost=-math.fsum(each for each in differences if each < 0),
        squares=math.fsum(each**2 for each in differences) + extra_squares,
        max_weight=min(pair.epochs for pair in pairs) if is_binary else math.inf,
    )


def compute_standard_error(differences: Sequence[float], epochs: int) -> float | None:
    """Return the standard error of the mean difference; None for one sample."""
    n = len(differences)
    if n < 2:
        return None
    squares = math.fsum(each**2 for each in differences) - math.fsum(differences) ** 2 / n
    return math.sqrt((squares + _EXTRA_ANSWERS / epochs) / (n * (n - 1)))


def compute_smallest_difference(error: float | None, n_questions: int, alpha: float = ALPHA) -> float | None:
    """Return the true difference that n samples with this standard error show in 80 of 100 cases; None: more than 1."""
    if error is None:
        return None
    found = (compute_t_quantile(1 - alpha / 2, n_questions) + compute_t_quantile(POWER, n_questions)) * error
    return found if found <= 1 else None


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Adjust p values for several comparisons (S. Holm, Scand. J. Statistics 6, 1979), in their order.

    The probability that any of them is below 0.05 by chance alone is then 5 % at most.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def _are_binary(pairs: Sequence[Pair]) -> bool:
    return all(score in (0, 1) for pair in pairs for score in (*pair.first, *pair.second))


def _count_flips(pairs: Sequence[Pair], differences: Sequence[float]) -> float | None:
    """Return the share of all sign flips whose sum is as far from 0; None if counting them would take too long.

    The distribution of the sum, in whole units, is added up step by step; of single answers it is the binomial.
    """
    unit = math.lcm(*{len(scores) for pair in pairs for scores in pair})
    units = [round(each * unit) for each in differences if each]
    total = sum(map(abs, units))
    if total * len(units) > _MOST_UNITS:
        return None
    import numpy as np

    shares = np.ones(1)
    for size in map(abs, units):
        shares = np.convolve(shares, [0.5, *[0.0] * (size - 1), 0.5])
    return float(min(shares[np.abs(2 * np.arange(len(shares)) - total) >= abs(sum(units))].sum(), 1.0))


def _draw_flips(differences: Sequence[float], seed: int) -> tuple[float, str]:
    """Return p by random sign flips; samples without a difference are the same under any sign."""
    differing = [each for each in differences if each]
    if len(differing) < 2:
        return 1.0, SIGN_FLIP
    import numpy as np
    from scipy.stats import permutation_test

    found = permutation_test(
        (differing,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=_DRAWS,
        batch=_DRAWS_AT_ONCE,
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue), SIGN_FLIP if 2 ** len(differing) <= _DRAWS else SIGN_FLIP_DRAWN


@dataclass(frozen=True)
class MeanDifference:
    """Means over samples, each of which is the mean of its epochs."""

    n_questions: int
    first: float
    second: float
    difference: float  # second - first
    ci95: Interval | None  # None: one sample says nothing about others


def compare_means(pairs: Sequence[tuple[float, float]]) -> MeanDifference | None:
    """Compare amounts of each sample, such as money or seconds; None without any.

    The interval is Student's t on the samples' differences. Amounts have long tails: with few samples it is too narrow
    rather than too wide.
    """
    if not pairs:
        return None
    n, differences = len(pairs), [b - a for a, b in pairs]
    mean, interval = fmean(differences), None
    if n > 1:
        half = compute_t_quantile(1 - ALPHA / 2, n) * stdev(differences) / math.sqrt(n)
        interval = (mean - half, mean + half)
    return MeanDifference(n, fmean([a for a, _ in pairs]), fmean([b for _, b in pairs]), mean, interval)


def compute_paired_interval(sums: DifferenceSums, alpha: float = ALPHA) -> Interval:
    """Return the bounds, -1 to 1, of the mean difference. Of a one-sided bound at level a, `alpha` is 2a."""
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
