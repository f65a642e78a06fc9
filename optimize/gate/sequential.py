"""Looks at a sealed test before all of its answers are there, which keep its level.

    plan = plan_looks(4, level=0.03)
    plan.levels                               # 2.3e-06, 0.0012, 0.0096, 0.0269: the largest p that passes at each look
    plan.count_questions(look=2, n=53)        # 27: asked by then
    Look(plan, 2).level                       # 0.0012
    decide_look(settings, comparison, Look(plan, 2))    # of `optimize.gate.looks`: "success", "hopeless", "continue"

Success: whoever looks several times with the same level is wrong more often. The level is spent over the looks by the
function of K. K. G. Lan and D. L. DeMets (Biometrika 70, 1983) that resembles the bounds of P. C. O'Brien and T. R.
Fleming (Biometrics 35, 1979): almost nothing at first, so that the last look is nearly a test without looks. The bounds
follow by integrating the density of the paths that were not stopped (P. Armitage, C. K. McPherson and B. C. Rowe, J.
Royal Statistical Society A 132, 1969).

Hopeless: the probability that the last look is a success, predicted from the answers so far without any other
assumption, is below 5 % (D. J. Spiegelhalter, L. S. Freedman and P. R. Blackburn, Controlled Clinical Trials 7, 1986).
The level does not depend on it (it is non-binding): a test that goes on nevertheless is still at its level.

Interval: that of the answers so far, at the level of the look (a repeated confidence interval: C. Jennison and B. W.
Turnbull, J. Royal Statistical Society B 51, 1989). The intervals of all looks hold together with the probability that a
single one would have without looks, so each of them holds wherever the test stops, and for whatever reason.

What it saves and costs, simulated: docs/explanation/sequential-test.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Literal

from eval.analysis.statistics.paired_interval import compute_paired_statistic
from eval.analysis.statistics.paired_tests import PairedResult

Decision = Literal["success", "hopeless", "continue"]
SUCCESS: Decision = "success"
HOPELESS: Decision = "hopeless"
CONTINUE: Decision = "continue"
MIN_PREDICTED = 0.05  # probability of a success, below which a test is hopeless
_STEP = 0.02  # of the grid, in standard errors of the whole test; bounds are then right to 0.001
_MOST = 9.0  # standard errors: no bound is searched beyond
_HALVINGS = 60
_NORMAL = NormalDist()


@dataclass(frozen=True)
class LookPlan:
    """Looks at equal shares of the questions, the last at all of them."""

    level: float  # two-sided, of all looks together
    bounds: tuple[float, ...]  # of each look, in its own standard errors

    @property
    def n_looks(self) -> int:
        return len(self.bounds)

    @property
    def levels(self) -> tuple[float, ...]:
        """The two-sided level of each look: the largest p that passes."""
        return (self.level,) if self.n_looks == 1 else tuple(2 * _NORMAL.cdf(-each) for each in self.bounds)

    def count_questions(self, look: int, n: int) -> int:
        """Return how many of n questions are answered for a look, counted from 1."""
        return math.ceil(n * look / self.n_looks)

    def predict_success(self, look: int, statistic: float) -> float:
        """Return the probability that the last look is a success.

        Args:
            look: counted from 1, before the last.
            statistic: distance of the gain so far from the least one, in standard errors.
        """
        share = look / self.n_looks
        return _NORMAL.cdf((statistic - self.bounds[-1] * math.sqrt(share)) / math.sqrt(1 - share))


@dataclass(frozen=True)
class Look:
    """One of the looks of a plan."""

    plan: LookPlan
    number: int  # from 1

    @classmethod
    def only(cls, level: float) -> "Look":
        """Return the look at a test that has no other."""
        return cls(plan_looks(1, level), 1)

    @property
    def level(self) -> float:
        """The two-sided level of this look: the largest p that passes."""
        return self.plan.levels[self.number - 1]

    @property
    def is_last(self) -> bool:
        return self.number == self.plan.n_looks

    @property
    def share(self) -> float:
        """Share of the questions that are answered."""
        return self.number / self.plan.n_looks

    def compute_level(self, level: float) -> float:
        """Return the level at this look of intervals that hold with `level` at all looks together."""
        return plan_looks(self.plan.n_looks, level).levels[self.number - 1]

    def predict_success(self, found: PairedResult, min_gain: float = 0.0) -> float:
        """Return the probability that the last look is a success.

        Args:
            found: the paired test of the questions that are answered; fewer than two show nothing.
            min_gain: that the interval must lie above.
        """
        return self.plan.predict_success(self.number, _compute_statistic(found, min_gain))


def _compute_statistic(found: PairedResult, min_gain: float) -> float:
    """Return the distance of the gain from the least one; from 0 it is that of the exact test."""
    if found.sums is None:
        return 0.0
    if min_gain:
        return compute_paired_statistic(min_gain, found.sums)
    return math.copysign(-_NORMAL.inv_cdf(found.p / 2), found.difference) if 0 < found.p < 1 else 0.0


@cache
def plan_looks(n_looks: int, level: float) -> LookPlan:
    """Return the plan of a number of looks.

    Raises:
        ValueError: there is no look, or the level is not between 0 and 1.
    """
    if n_looks < 1 or not 0 < level < 1:
        raise ValueError(f"n_looks={n_looks}, level={level}; expected at least 1, and a level between 0 and 1")
    import numpy as np
    from scipy.special import ndtr

    bounds: list[float] = []
    edge, paths, spent = np.zeros(1), np.ones(1), 0.0  # where a path is, in standard errors of the whole test
    for look in range(1, n_looks + 1):
        share, step = look / n_looks, math.sqrt(1 / n_looks)
        spent, before = _spend(level, share), spent

        def compute_stopped(bound: float, limit: float = math.sqrt(share)) -> float:
            """Return the probability that a path first crosses a bound at this look, on either side."""
            return float(2 * paths @ ndtr((edge - bound * limit) / step))  # noqa: B023 - used in this turn alone

        bound = _find_bound(compute_stopped, spent - before)
        bounds.append(bound)
        size = 2 * math.ceil(bound * math.sqrt(share) / _STEP) + 1
        grid = np.linspace(-bound, bound, size) * math.sqrt(share)
        weights = np.full(size, grid[1] - grid[0])
        weights[[0, -1]] /= 2
        density = np.exp(-(((grid[:, None] - edge) / step) ** 2) / 2) / (step * math.sqrt(2 * math.pi))
        edge, paths = grid, weights * (density @ paths)
    return LookPlan(level, tuple(bounds))


def _spend(level: float, share: float) -> float:
    """Return the part of a two-sided level that is spent when this share of the answers is there."""
    return 4 * _NORMAL.cdf(_NORMAL.inv_cdf(level / 4) / math.sqrt(share))


def _find_bound(compute_stopped: Callable[[float], float], wanted: float) -> float:
    low, high = 0.0, _MOST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if compute_stopped(middle) > wanted else (low, middle)
    return high
