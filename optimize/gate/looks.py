"""Several looks at one test, and the smallest gain that a test can show.

plan_looks(4, level=0.03).levels              # 2.3e-06, 0.0012, 0.0096, 0.0269: the largest p at each of four looks
compute_smallest_gain(53, epochs=5)           # 0.137: a true gain of 14 points passes the gate in 80 of 100 cases

The level is spent over the looks by the function of Lan and DeMets (Biometrika 70, 1983) that resembles the bounds of
O'Brien and Fleming (Biometrics 35, 1979): almost nothing at first. The bounds follow by integrating the density of the
paths that were not stopped (Armitage, McPherson and Rowe, J. Royal Statistical Society A 132, 1969).

With n questions, k answers per question and side, and accuracies p and q, the variance of a question's difference is

    v = r·(p(1-p) + q(1-q) - 2·c·√(p(1-p)·q(1-q)))  +  (1-r)·(p(1-p) + q(1-q))/k

the first part from questions that gain more or less than others, the second from chance. r is the correlation between
answers to one question, c that between the questions' difficulty for the one prompt set and for the other (E. Miller,
arXiv 2411.00640, 2024, section 5). Half a step of the exact test is added: 1/(n·k). Checked by simulation in
`tests/optimize/gate/test_gate.py`.
"""

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

from eval.analysis.statistics.paired_tests import compute_smallest_difference
from mas.runtime.text import format_count
from optimize.gate.sealed_log import FIRST_LEVEL

_STEP = 0.02  # of the grid, in standard errors of the whole test; bounds are then right to 0.001
_MOST = 30.0  # standard errors: no bound of at most ten looks is larger
_NORMAL = NormalDist()

# Assumptions about the answers
ACCURACY = 0.4  # of the prompts that a search begins with: nothing is measured yet
CORRELATION = 0.5  # of answers to one question
CORRELATIONS = (0.3, 0.5, 0.8)  # published for GAIA: 0.30 to 0.77 (arXiv 2512.06710)
SHARED_DIFFICULTY = 0.8  # no measurement; prompts for the same model find mostly the same questions hard
_EXTRA_ANSWERS = 0.5  # as the interval of eval.analysis.statistics.paired_tests has them


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
    from scipy.optimize import bisect
    from scipy.special import ndtr

    bounds: list[float] = []
    edge, paths, spent = np.zeros(1), np.ones(1), 0.0  # where a path is, in standard errors of the whole test
    step = math.sqrt(1 / n_looks)
    for look in range(1, n_looks + 1):
        reached = math.sqrt(look / n_looks)
        # SciPy's, since that of the standard library is 0 beyond 8.3 standard errors
        spent, before = float(4 * ndtr(_NORMAL.inv_cdf(level / 4) / reached)), spent

        def compute_excess(bound: float, reached: float = reached, wanted: float = spent - before) -> float:
            """Return the probability that a path first crosses a bound at this look, beyond the wanted one."""
            return float(2 * paths @ ndtr((edge - bound * reached) / step)) - wanted  # noqa: B023 - of this turn alone

        bound = bisect(compute_excess, 0.0, _MOST)
        bounds.append(bound)
        size = 2 * math.ceil(bound * reached / _STEP) + 1
        grid = np.linspace(-bound, bound, size) * reached
        weights = np.full(size, grid[1] - grid[0])
        weights[[0, -1]] /= 2
        density = np.exp(-(((grid[:, None] - edge) / step) ** 2) / 2) / (step * math.sqrt(2 * math.pi))
        edge, paths = grid, weights * (density @ paths)
    return LookPlan(level, tuple(bounds))


def compute_smallest_gain(
    n_questions: int,
    epochs: int,
    correlation: float = CORRELATION,
    min_gain: float = 0.0,
    level: float = FIRST_LEVEL,
) -> float | None:
    """Return the true gain, 0 to 1, that passes the gate in 80 of 100 cases; None if even an accuracy of 1 would not.

    `correlation` is that of answers to one question, `level` the two-sided one of the sealed test.
    """
    from scipy.optimize import bisect

    def compute_excess(gain: float) -> float:
        error = _standard_error(gain, n_questions, epochs, correlation)
        least = compute_smallest_difference(error, n_questions, level)
        return -1.0 if least is None else gain - min_gain - least - 1 / (n_questions * epochs)

    most = 1 - ACCURACY
    return float(bisect(compute_excess, 0.0, most)) if compute_excess(most) >= 0 else None


def describe_power(n_questions: int, epochs: int, min_gain: float = 0.0, level: float = FIRST_LEVEL) -> str:
    """Return a sentence about the smallest gain that the sealed set can show; arguments as above."""
    likely, *range_ = (
        compute_smallest_gain(n_questions, epochs, each, min_gain, level) for each in (CORRELATION, *CORRELATIONS)
    )
    basis = f"assuming that {ACCURACY:.0%} are right now"
    asked = f"{format_count(n_questions, 'sealed question')}, {format_count(epochs, 'answer')} each"
    if likely is None:
        return f"power: {asked}: too few to show any gain reliably ({basis}); seal more, or raise gate.epochs"
    gains = [1 - ACCURACY if each is None else each for each in range_]
    low, high = round(100 * min(gains)), round(100 * max(gains))
    between = f"{low} to {high}" if low < high else "the same"
    return (
        f"power: {asked}: a true gain of {round(100 * likely)} points passes the gate in 80 of 100 cases ({basis}; "
        f"{between} for answers to one question that are less or more alike)"
    )


def _standard_error(gain: float, n_questions: int, epochs: int, correlation: float) -> float:
    """Return the standard error that `compute_standard_error` will probably find."""
    before, after = ACCURACY * (1 - ACCURACY), (ACCURACY + gain) * (1 - ACCURACY - gain)
    after = max(after, 0.0)  # a gain up to 1 may miss it by a rounding error
    questions = before + after - 2 * SHARED_DIFFICULTY * math.sqrt(before * after)
    variance = correlation * questions + (1 - correlation) * (before + after) / epochs
    return math.sqrt((variance + _EXTRA_ANSWERS / epochs / (n_questions - 1)) / n_questions)
