"""Interval of a run's metric: the mean of values from 0 to 1, several per sample if samples were repeated.

Right-or-wrong values have Wilson's interval, clustered by sample (`eval.analysis.statistics.intervals`). Graded values
have it for the number of right-or-wrong answers whose mean would vary as much. Half an independent answer is added to
the variance: few values that happen to be alike do not show how far others are from them.

    compute_metric_interval([(1.0, 0.0), (1.0, 1.0)])        # clustered Wilson
    compute_metric_interval([(0.25,), (0.75,), (0.5,)])      # as many answers as vary so
"""

import math
from collections.abc import Sequence

from eval.analysis.statistics.intervals import (
    Interval,
    compute_clustered_interval,
    compute_graded_icc,
    compute_mean_interval,
)

_EXTRA_ANSWERS = 0.5


def compute_metric_interval(questions: Sequence[Sequence[float]]) -> Interval | None:
    """Return the bounds of the mean, within 0 to 1; None without answers, or for graded answers to one sample.

    Args:
        questions: the values of each sample's answers.
    """
    answered = [values for values in questions if values]
    if all(value in (0, 1) for values in answered for value in values):
        return compute_clustered_interval([(round(sum(values)), len(values)) for values in answered])
    if len(answered) < 2:
        return None
    epochs = sum(map(len, answered)) / len(answered)
    one_in_mean = (1 + (epochs - 1) * compute_graded_icc(answered)) / epochs  # variance of a sample's mean, in answers'
    return compute_mean_interval(
        [math.fsum(values) / len(values) for values in answered], extra_squares=_EXTRA_ANSWERS * one_in_mean
    )
