"""Looks at a sealed test before all of its answers are there, which keep its level.

    plan = plan_looks(4, level=0.03)
    plan.levels                               # 2.3e-06, 0.0012, 0.0096, 0.0269: the largest p that passes at each look
    plan.count_questions(look=2, n=53)        # 27: asked by then
    Look(plan, 2).level                       # 0.0012
    decide_look(settings, comparison, Look(plan, 2))    # of `optimize.gate.looks`: "success", "hopeless", "continue"

Success: p is at most the level of the look (`eval.analysis.statistics.paired_tests.plan_looks`).

Hopeless: the probability that the last look is a success, predicted from the answers so far without any other
assumption, is below 5 % (D. J. Spiegelhalter, L. S. Freedman and P. R. Blackburn, Controlled Clinical Trials 7, 1986).
The level does not depend on it (it is non-binding): a test that goes on nevertheless is still at its level.

Interval: that of the answers so far, at the level of the look (a repeated confidence interval: C. Jennison and B. W.
Turnbull, J. Royal Statistical Society B 51, 1989). The intervals of all looks hold together with the probability that a
single one would have without looks, so each of them holds wherever the test stops, and for whatever reason.

What it saves and costs, simulated: docs/explanation/sequential-test.md.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from eval.analysis.statistics.paired_interval import compute_paired_statistic
from eval.analysis.statistics.paired_tests import LookPlan, PairedResult, plan_looks

Decision = Literal["success", "hopeless", "continue"]
SUCCESS: Decision = "success"
HOPELESS: Decision = "hopeless"
CONTINUE: Decision = "continue"
MIN_PREDICTED = 0.05  # probability of a success, below which a test is hopeless
_NORMAL = NormalDist()


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
