"""Several looks at one test: their levels, and the estimate of a true gain that is known only because it passed.

plan_looks(4, level=0.03).levels              # 2.3e-06, 0.0012, 0.0096, 0.0269: the largest p at each of four looks

The level is spent over the looks by the function of Lan and DeMets (Biometrika 70, 1983) that resembles the bounds of
O'Brien and Fleming (Biometrics 35, 1979): almost nothing at first, so that the last look is nearly a test without
looks. The bounds follow by integrating the density of the paths that were not stopped (Armitage, McPherson and Rowe, J.
Royal Statistical Society A 132, 1969).

A gain that is shown only if it is significant is too large on average. The estimate averages the maximum and the mean
of the likelihood of the seen gain, divided by the probability that such a true gain passes (Ghosh, Zou and Wright,
American J. Human Genetics 82, 2008). A test that may stop early passes about as often as its last look alone would, so
the probability is that of the whole test, and the gain is that of the answers so far.

    shrink_gain(gain=0.113, standard_error=0.048, least_passing=0.094)                 # 0.0404…
    shrink_gain(gain=0.12, standard_error=0.048, least_passing=0.092, share=0.75)      # 0.0364…
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

_STEP = 0.02  # of the grid, in standard errors of the whole test; bounds are then right to 0.001
_MOST = 9.0  # standard errors: no bound is searched beyond
_HALVINGS = 60
_NORMAL = NormalDist()
_STEPS = 100  # of the grid in a standard error
_REACH = 8.0  # standard errors above the seen gain, beyond which nothing is likely


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


@cache
def plan_looks(n_looks: int, level: float) -> LookPlan:
    """Return the plan of a number of looks."""
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


def shrink_gain(gain: float, standard_error: float, least_passing: float, share: float = 1.0) -> float:
    """Return the estimate of the true gain, 0 to `gain`.

    Args:
        gain: that was seen, and passed.
        standard_error: of the gain, above 0.
        least_passing: the smallest gain that passes at the end of the test.
        share: of the test's answers that the gain was seen in.
    """
    import numpy as np
    from scipy.special import log_ndtr

    seen, least = gain / standard_error, least_passing / standard_error
    true_gains = np.linspace(0.0, seen + _REACH, int((seen + _REACH) * _STEPS) + 1)  # in standard errors
    likelihood = -((seen - true_gains) ** 2) / 2 - log_ndtr((true_gains - least) / math.sqrt(share))
    weights = np.exp(likelihood - likelihood.max())
    likeliest, mean = float(true_gains[likelihood.argmax()]), float(weights @ true_gains / weights.sum())
    return min(standard_error * (likeliest + mean) / 2, gain)
