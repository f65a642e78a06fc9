"""Confidence of a share of right answers: Wilson's 95% score interval, clustered by sample if samples repeat.

Another answer to the same sample is not a new sample: n·k answers count as n·k/(1+(k-1)·ICC), with the intraclass
correlation ICC by one-way analysis of variance, cut to 0..1, times the squared ratio of the normal quantile to
Student's. At 0 and 1 the inner bound is the exact one, 0.025^(1/n). Graded values have the interval for the number of
right-or-wrong answers whose mean would vary as much. Sources, reasons, and how often the intervals contain the truth:
docs/explanation/intervals.md.

    compute_share_interval(20 / 53, 53, 53)                  # (0.2569…, 0.5151…): one answer to each of 53 questions
    compute_clustered_interval([(3, 3), (0, 3), (1, 3)])     # (correct, answers) of each question
    compute_metric_interval([(0.25,), (0.75,), (0.5,)])      # graded: the values of each question's answers
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

CONFIDENCE = 0.95
CRITICAL = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # in standard errors, at a level of 0.05
_MISS = (1 - CONFIDENCE) / 2  # on each side
_EXTRA_ANSWERS = 0.5

Interval = tuple[float, float]
Tally = tuple[int, int]  # correct, answers: of one question


@dataclass(frozen=True)
class Estimate:
    """A mean over answers, 0 to 1, with its interval."""

    value: float | None  # None: over no answer
    ci95: Interval | None  # None: answers are missing, or there are too few
    n: int | None = None  # answers; None: as many as elsewhere


def compute_clustered_interval(questions: Sequence[Tally]) -> Interval | None:
    """Return the bounds of the share of correct answers over all samples; None without any answer.

    What varies is which samples were drawn and the answers to each.
    """
    answers = sum(n for _, n in questions)
    if not answers:
        return None
    share = sum(correct for correct, _ in questions) / answers
    others = sum(n**2 for _, n in questions) / answers - 1  # answers to the same sample as one answer
    return compute_share_interval(share, answers / (1 + others * compute_icc(questions)), len(questions))


def compute_metric_interval(questions: Sequence[Sequence[float]]) -> Interval | None:
    """Return the bounds of the mean of all samples' answers; None without any, or for graded ones to one sample."""
    answered = [values for values in questions if values]
    if all(value in (0, 1) for values in answered for value in values):
        return compute_clustered_interval([(round(sum(values)), len(values)) for values in answered])
    if len(answered) < 2:
        return None
    epochs, means = sum(map(len, answered)) / len(answered), [math.fsum(values) / len(values) for values in answered]
    squares = [math.fsum((each - mean) ** 2 for each in values) for values, mean in zip(answered, means, strict=True)]
    icc = _analyse_variance(list(zip(map(len, answered), map(math.fsum, answered), squares, strict=True)))
    one_in_mean = (1 + (epochs - 1) * icc) / epochs  # variance of a sample's mean, in answers'
    return compute_mean_interval(means, extra_squares=_EXTRA_ANSWERS * one_in_mean)


def compute_mean_interval(
    values: Sequence[float], max_n: float = math.inf, extra_squares: float = 0.0
) -> Interval | None:
    """Return the bounds of the mean of one value from 0 to 1 per sample, such as its estimated pass@k.

    Wilson's interval for the number of right-or-wrong values with the same variance of the mean, p(1-p)/variance·n, at
    most `max_n` and at least the samples. Few values that happen to be alike do not look certain by `extra_squares`.
    """
    n = len(values)
    if not n:
        return None
    mean = min(max(math.fsum(values) / n, 0.0), 1.0)
    variance = (math.fsum((value - mean) ** 2 for value in values) + extra_squares) / max(n - 1, 1)
    effective = n * mean * (1 - mean) / variance if variance > 0 else n
    return compute_share_interval(mean, max(min(effective, max_n), n), n)


def compute_icc(questions: Sequence[Tally]) -> float:
    """Return how alike the answers to one sample are: 0 no more than any two answers, 1 always all right or all wrong.

    Also 1 if nothing varies or there is only one sample: repeats then prove nothing.
    """
    return _analyse_variance([(size, correct, correct * (size - correct) / size) for correct, size in questions])


def _analyse_variance(groups: Sequence[tuple[int, float, float]]) -> float:
    """Return the intraclass correlation of groups, each given by its size, its sum and the squares within it."""
    n, answers = len(groups), sum(size for size, _, _ in groups)
    if n < 2 or answers == n:
        return 1.0
    mean = math.fsum(total for _, total, _ in groups) / answers
    between = math.fsum(size * (total / size - mean) ** 2 for size, total, _ in groups) / (n - 1)
    within = math.fsum(squares for _, _, squares in groups) / (answers - n)
    typical_size = (answers - sum(size**2 for size, _, _ in groups) / answers) / (n - 1)
    spread = between + (typical_size - 1) * within
    return min(max((between - within) / spread, 0.0), 1.0) if spread > 0 else 1.0


def compute_share_interval(share: float, effective: float, n: int) -> Interval:
    """Return the interval of every share and mean, 0 to 1.

    `effective`: number of independent right-or-wrong answers that would vary as much, estimated from n samples.
    """
    if share in (0, 1):
        bound = float(_MISS ** (1 / effective))
        return (bound, 1.0) if share else (0.0, 1 - bound)
    if n < 2:
        return 0.0, 1.0  # one sample says nothing about others
    n_answers = effective * (CRITICAL / compute_t_quantile(1 - _MISS, n)) ** 2
    middle = (share + CRITICAL**2 / (2 * n_answers)) / (1 + CRITICAL**2 / n_answers)
    spread = math.sqrt(share * (1 - share) / n_answers + (CRITICAL / n_answers) ** 2 / 4)
    half = CRITICAL / (1 + CRITICAL**2 / n_answers) * spread
    return max(middle - half, 0.0), min(middle + half, 1.0)


@cache
def compute_t_quantile(share: float, n: int) -> float:
    """Return a quantile of Student's t for n samples."""
    from scipy.special import stdtrit  # a tenth of the import time of scipy.stats

    return float(stdtrit(n - 1, share))
