"""Verdict on a change: pass, fail or inconclusive, from the interval of the difference and the loss that is allowed.

Pass: the lower bound is above −margin, so the change is no worse than allowed (non-inferiority). Fail: the upper bound
is below −margin, and the difference is one that two runs of the same program would show in at most 1 of 100
comparisons. Anything else is inconclusive, with an estimate of the questions or epochs that would decide.

All differences are oriented so that more is better. That of a share is in shares; that of cost or time is minus the
logarithm of the ratio of the means. Every metric is written as contributions of single answers. For shares they are the
scores, and the interval is that of the paired tests; for the others the variance of their differences is that of the
metric's difference, and the interval is Student's t.

    effect = measure_shares(pairs)
    judge_effect(effect, margin=0.02, level=0.05)       # Judgement(verdict="inconclusive", bounds=(-0.08, 0.03), …)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Literal

from eval.analysis.statistics.intervals import Interval, compute_t_quantile
from eval.analysis.statistics.paired_tests import Pair, PairedResult, run_paired_test

Verdict = Literal["pass", "fail", "inconclusive"]
PASS: Verdict = "pass"
FAIL: Verdict = "fail"
INCONCLUSIVE: Verdict = "inconclusive"
SAME_PROGRAM = 0.005  # level at which equal programs must differ to fail: half of 1 %, since intervals are approximate
DECIDED = 0.8  # of the comparisons, which the estimated numbers of questions and epochs would decide
MAX_EPOCHS = 100  # that are worth a suggestion
MIN_QUESTIONS = 2  # below it there is no interval


@dataclass(frozen=True)
class Effect:
    """The difference of two runs in one metric; more is better."""

    first: float  # as shown
    second: float
    gain: float
    contributions: Sequence[Pair]  # of each answer; their differences vary as the gain does
    paired: PairedResult | None = None  # of shares: their paired test
    extra: float = 0.0  # sum of squares of answers that did not differ but might have

    @property
    def n_questions(self) -> int:
        return len(self.contributions)

    @property
    def epochs(self) -> int:
        return min(pair.epochs for pair in self.contributions)

    def compute_variance(self) -> float:
        """Return the variance of one question's difference."""
        if self.paired:
            return (self.paired.standard_error or 0.0) ** 2 * self.n_questions
        differences = [fmean(pair.second) - fmean(pair.first) for pair in self.contributions]
        return _compute_variance(differences) + self.extra / (len(differences) - 1)

    def compute_bounds(self, level: float) -> Interval:
        """Return both bounds, each of which is wrong with this probability; there are two questions at least."""
        if self.paired and (found := self.paired.compute_interval(2 * level)):
            return found
        half = compute_t_quantile(1 - level, self.n_questions) * math.sqrt(self.compute_variance() / self.n_questions)
        return self.gain - half, self.gain + half


@dataclass(frozen=True)
class Judgement:
    """The verdict on one metric."""

    verdict: Verdict
    bounds: Interval
    by_chance: bool  # the upper bound is below −margin, but equal programs would differ so much too often
    questions_needed: int | None  # to pass in 80 of 100 comparisons if nothing has changed; None: no number would do
    epochs_needed: int | None  # the same with the same questions; None: unknown, or no number would do


def measure_shares(pairs: Sequence[Pair]) -> Effect:
    """Return the difference of the mean scores, from 0 to 1, of two runs."""
    first, second = (fmean([fmean(pair[side]) for pair in pairs]) for side in (0, 1))
    paired = run_paired_test(pairs)
    return Effect(first, second, paired.difference, pairs, paired)


def measure_ratio(pairs: Sequence[Pair]) -> Effect:
    """Return how much less of an amount the second run takes: minus the logarithm of the ratio of the means.

    A question's contribution is how the logarithm changes if the question is left out (the jackknife; B. Efron and
    R. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11), since a few may take most of an amount.

    Raises:
        ValueError: a mean is not positive, or one question takes all of an amount.
    """
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    first, second = (fmean([fmean(values) for values in side]) for side in sides)
    if first <= 0 or second <= 0:
        raise ValueError(f"the means are {first} and {second}; expected positive amounts")
    less = [_leave_out(side, mean) for side, mean in zip(sides, (first, second), strict=True)]
    return Effect(first, second, -math.log(second / first), [Pair(*each) for each in zip(*less, strict=True)])


def _leave_out(questions: Sequence[Sequence[float]], mean: float) -> list[list[float]]:
    """Return each answer's part of the change of minus the logarithm of the mean; log1p raises where all is taken."""
    n, found = len(questions), list[list[float]]()
    for values in questions:
        own = fmean(values)
        change = (n - 1) * math.log1p(-own / (n * mean))
        found.append([change * value / own if own else 0.0 for value in values])
    return found


def judge_effect(effect: Effect, margin: float, level: float, same_program: float = SAME_PROGRAM) -> Judgement:
    """Return the verdict.

    Args:
        effect: of two questions at least.
        margin: loss that is allowed, on the scale of the effect's gain.
        level: probability with which each bound may be wrong.
        same_program: share of the comparisons of a program with itself that may fail.
    """
    bounds = effect.compute_bounds(level)
    is_below = bounds[1] < -margin
    differs = is_below and effect.compute_bounds(min(level, same_program))[1] < 0
    verdict = PASS if bounds[0] > -margin else FAIL if differs else INCONCLUSIVE
    return Judgement(verdict, bounds, is_below and not differs, *_estimate_sizes(effect, margin, level))


def _estimate_sizes(effect: Effect, margin: float, level: float) -> tuple[int | None, int | None]:
    """Return the numbers of questions, and of epochs, that let an unchanged program pass in 80 of 100 comparisons."""
    if margin <= 0:
        return None, None
    z = NormalDist().inv_cdf(1 - level)
    wanted = (margin / (z + NormalDist().inv_cdf(DECIDED))) ** 2  # variance of the difference
    total, n = effect.compute_variance(), effect.n_questions
    least = z**2 * (1 - margin) / margin if effect.paired else 0.0  # score interval without any difference
    questions = math.ceil(max(total / wanted, least, MIN_QUESTIONS))
    if effect.epochs < 2 or n < least:
        return questions, None
    within = fmean([_compute_variance(side) for pair in effect.contributions for side in pair]) * 2  # of one answer
    between = max(total - within / effect.epochs, 0.0)
    left = n * wanted - between
    epochs = math.ceil(max(within / left, 1.0)) if left > 0 else math.inf
    return questions, int(epochs) if epochs <= MAX_EPOCHS else None


def _compute_variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return math.fsum((each - mean) ** 2 for each in values) / (len(values) - 1)
