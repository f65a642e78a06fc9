"""Means of an amount, such as money or seconds, of two systems on the same samples, and their difference.

The interval is Student's t on the samples' differences. Amounts have long tails: with few samples the interval is too
narrow rather than too wide.

    compare_means([(0.02, 0.01), (0.05, 0.02), (0.03, 0.02)])      # second - first: -0.0167, -0.0454 to 0.0120
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from eval.analysis.statistics.intervals import CONFIDENCE, Interval


@dataclass(frozen=True)
class MeanDifference:
    """Means over samples, each of which is the mean of its epochs."""

    n_questions: int
    first: float
    second: float
    difference: float  # second - first
    ci95: Interval | None  # None: one sample says nothing about others

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "ci95": list(self.ci95) if self.ci95 else None}


def compare_means(pairs: Sequence[tuple[float, float]]) -> MeanDifference | None:
    """Compare the amounts of each sample; None without any."""
    if not pairs:
        return None
    n = len(pairs)
    first, second = (math.fsum(pair[side] for pair in pairs) / n for side in (0, 1))
    differences = [b - a for a, b in pairs]
    return MeanDifference(n, first, second, math.fsum(differences) / n, _compute_interval(differences))


def _compute_interval(differences: Sequence[float]) -> Interval | None:
    n = len(differences)
    if n < 2:
        return None
    from scipy.stats import t

    mean = math.fsum(differences) / n
    variance = math.fsum((each - mean) ** 2 for each in differences) / (n - 1)
    half = float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) * math.sqrt(variance / n)
    return mean - half, mean + half
