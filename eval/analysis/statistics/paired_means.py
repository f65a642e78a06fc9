"""Means of an amount, such as money or seconds, of two systems on the same samples, and their difference.

The interval is Student's t on the samples' differences. Amounts have long tails: with few samples the interval is too
narrow rather than too wide.

    compare_means([(0.02, 0.01), (0.05, 0.02), (0.03, 0.02)])      # second - first: -0.0167, -0.0454 to 0.0120
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

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
    standard_error: float | None = None  # None: unknown

    def compute_interval(self, alpha: float) -> Interval | None:
        """Return the difference's interval at a two-sided level; None if its standard error is unknown."""
        return _compute_interval(self.difference, self.standard_error, self.n_questions, alpha)

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "ci95": list(self.ci95) if self.ci95 else None}


def compare_means(pairs: Sequence[tuple[float, float]]) -> MeanDifference | None:
    """Compare the amounts of each sample; None without any."""
    if not pairs:
        return None
    n = len(pairs)
    first, second = (math.fsum(pair[side] for pair in pairs) / n for side in (0, 1))
    differences = [b - a for a, b in pairs]
    mean = math.fsum(differences) / n
    error = _compute_standard_error(differences, mean)
    return MeanDifference(n, first, second, mean, _compute_interval(mean, error, n, ALPHA), error)


def _compute_standard_error(differences: Sequence[float], mean: float) -> float | None:
    n = len(differences)
    return math.sqrt(math.fsum((each - mean) ** 2 for each in differences) / (n - 1) / n) if n > 1 else None


def _compute_interval(mean: float, error: float | None, n: int, alpha: float) -> Interval | None:
    if error is None:
        return None
    half = compute_t_quantile(1 - alpha / 2, n) * error
    return mean - half, mean + half
