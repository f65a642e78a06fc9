"""Verdict on a change: pass, fail or inconclusive, from the interval of the difference and the loss that is allowed.

Pass: the lower bound is above −margin, so the change is no worse than allowed (non-inferiority). Fail: the upper bound
is below −margin, and the difference is one that two runs of the same program would show in at most 1 of 100
comparisons. Anything else is inconclusive, with an estimate of the questions that would decide.

All differences are oriented so that more is better. That of a share is in shares, with the interval of the paired
tests; that of cost or time is minus the logarithm of the ratio of the means, with Student's interval.

    effect = measure_shares(pairs)
    judge_effect(effect, margin=0.02, level=0.05)       # Judgement(verdict="inconclusive", bounds=(-0.08, 0.03), …)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance
from typing import Literal

from eval.analysis.statistics.intervals import Interval, compute_t_quantile
from eval.analysis.statistics.paired_tests import Pair, PairedResult, run_paired_test

Verdict = Literal["pass", "fail", "inconclusive"]
PASS: Verdict = "pass"
FAIL: Verdict = "fail"
INCONCLUSIVE: Verdict = "inconclusive"
SAME_PROGRAM = 0.005  # level at which equal programs must differ to fail: half of 1 %, since intervals are approximate
DECIDED = 0.8  # of the comparisons, which the estimated number of questions would decide
MIN_QUESTIONS = 2  # below it there is no interval


@dataclass(frozen=True)
class Effect:
    """The difference of two runs in one metric; more is better."""

    first: float  # as shown
    second: float
    gain: float
    n_questions: int
    variance: float  # of one question's difference
    paired: PairedResult | None = None  # of shares: their paired test

    def compute_bounds(self, level: float) -> Interval:
        """Return both bounds, each of which is wrong with this probability; there are two questions at least."""
        if self.paired and (found := self.paired.compute_interval(2 * level)):
            return found
        half = compute_t_quantile(1 - level, self.n_questions) * math.sqrt(self.variance / self.n_questions)
        return self.gain - half, self.gain + half


@dataclass(frozen=True)
class Judgement:
    """The verdict on one metric."""

    verdict: Verdict
    bounds: Interval
    by_chance: bool  # the upper bound is below −margin, but equal programs would differ so much too often
    questions_needed: int | None  # to pass in 80 of 100 comparisons if nothing has changed; None: no number would do


def measure_shares(pairs: Sequence[Pair]) -> Effect:
    """Return the difference of the mean scores, from 0 to 1, of two runs."""
    first, second = (fmean([fmean(pair[side]) for pair in pairs]) for side in (0, 1))
    paired, n = run_paired_test(pairs), len(pairs)
    return Effect(first, second, paired.difference, n, (paired.standard_error or 0.0) ** 2 * n, paired)


def measure_ratio(pairs: Sequence[Pair]) -> Effect:
    """Return how much less of an amount the second run takes: minus the logarithm of the ratio of the means.

    A question's contribution is how the logarithm changes if the question is left out (the jackknife; B. Efron and
    R. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11), since a few may take most of an amount.

    Raises:
        ValueError: a mean is not positive, or one question takes all of an amount.
    """
    n, sides = len(pairs), [[fmean(pair[side]) for pair in pairs] for side in (0, 1)]
    first, second = map(fmean, sides)
    if first <= 0 or second <= 0:
        raise ValueError(f"the means are {first} and {second}; expected positive amounts")
    less = [[(n - 1) * math.log1p(-own / (n * fmean(side))) for own in side] for side in sides]
    return Effect(first, second, -math.log(second / first), n, variance([b - a for a, b in zip(*less, strict=True)]))


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
    return Judgement(verdict, bounds, is_below and not differs, _estimate_questions(effect, margin, level))


def _estimate_questions(effect: Effect, margin: float, level: float) -> int | None:
    """Return the number of questions that lets an unchanged program pass in 80 of 100 comparisons."""
    if margin <= 0:
        return None
    z = NormalDist().inv_cdf(1 - level)
    wanted = (margin / (z + NormalDist().inv_cdf(DECIDED))) ** 2  # variance of the difference
    least = z**2 * (1 - margin) / margin if effect.paired else 0.0  # score interval without any difference
    return math.ceil(max(effect.variance / wanted, least, MIN_QUESTIONS))
