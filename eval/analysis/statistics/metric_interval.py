"""Interval of a run's metric: the mean of values from 0 to 1, several per sample if samples were repeated.

Right-or-wrong values have Wilson's interval, clustered by sample (`eval.analysis.statistics.intervals`). Graded values
have Student's interval of the samples' means, cut to 0..1, with the same half answer added to the variance as in the
paired test (`eval.analysis.statistics.paired_tests`), so that it has a width even if all values are equal.

    compute_metric_interval([(1.0, 0.0), (1.0, 1.0)])        # clustered Wilson
    compute_metric_interval([(0.25,), (0.75,), (0.5,)])      # Student's t
"""

import math
from collections.abc import Sequence

from eval.analysis.statistics.intervals import Interval, compute_clustered_interval
from eval.analysis.statistics.paired_tests import compute_standard_error, compute_t_interval


def compute_metric_interval(questions: Sequence[Sequence[float]]) -> Interval | None:
    """Return the bounds of the mean, within 0 to 1; None without answers, or for graded answers to one sample.

    Args:
        questions: the values of each sample's answers.
    """
    answered = [values for values in questions if values]
    if all(value in (0, 1) for values in answered for value in values):
        return compute_clustered_interval([(round(sum(values)), len(values)) for values in answered])
    means = [math.fsum(values) / len(values) for values in answered]
    error = compute_standard_error(means, min(map(len, answered)))
    bounds = compute_t_interval(math.fsum(means) / len(means), error, len(means))
    return bounds and (max(bounds[0], 0.0), bounds[1])
