"""Means of an amount, such as money or seconds, of two systems on the same samples, and their difference.

The interval is Student's t on the samples' differences. Amounts have long tails: with few samples the interval is too
narrow rather than too wide.

    compare_means([(0.02, 0.01), (0.05, 0.02), (0.03, 0.02)])      # second - first: -0.0167, -0.0454 to 0.0120
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev

from eval.analysis.statistics.intervals import Interval, compute_t_quantile
from eval.analysis.statistics.paired_interval import ALPHA


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
    n, differences = len(pairs), [b - a for a, b in pairs]
    mean, interval = fmean(differences), None
    if n > 1:
        half = compute_t_quantile(1 - ALPHA / 2, n) * stdev(differences) / math.sqrt(n)
        interval = (mean - half, mean + half)
    return MeanDifference(n, fmean([a for a, _ in pairs]), fmean([b for _, b in pairs]), mean, interval)
