"""Several looks at one test, and the smallest gain that a test can show.

plan_looks(4, level=0.03).levels              # 2.3e-06, 0.0012, 0.0096, 0.0269: the largest p at each of four looks
compute_smallest_gain(53, epochs=5)           # 0.137: a true gain of 14 points passes the gate in 80 of 100 cases

The level is spent over the looks by the function of Lan and DeMets that resembles the bounds of O'Brien and Fleming
(docs/explanation/sequential-test.md). The bounds follow by integrating the density of the paths that were not stopped.

With n questions, k answers per question and side, and accuracies p and q, the variance of a question's difference is

    v = r·(p(1-p) + q(1-q) - 2·c·√(p(1-p)·q(1-q)))  +  (1-r)·(p(1-p) + q(1-q))/k

r is the correlation between answers to one question, c that between the questions' difficulty for the one prompt set
and for the other (E. Miller, arXiv 2411.00640, section 5). Half a step of the exact test is added: 1/(n·k).
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
CORRELATION = 0.5  # of answers to one question; published for GAIA: 0.30 to 0.77 (arXiv 2512.06710)
SHARED_DIFFICULTY = 0.8  # no measurement; prompts for the same model find mostly the same questions hard
_EXTRA_ANSWERS = 0.5  # as the interval of eval.analysis.statistics.paired_tests has them


@dataclass(frozen=True)
class Look:
    """One of the looks at a test, at equal shares of its questions; the last one is at all of them."""

    number: int  # from 1
    n_looks: int
    test_level: float  # two-sided, of all looks together
    bound: float  # in standard errors
    last_bound: float  # of the last look

    @property
    def level(self) -> float:
        """The two-sided level of this look: the largest p that passes."""
        return self.test_level if self.n_looks == 1 else 2 * _NORMAL.cdf(-self.bound)

    @property
    def is_last(self) -> bool:
        return self.number == self.n_looks

    def compute_level(self, level: float) -> float:
        """Return the level at this look of intervals that hold with `level` at all looks together."""
        return plan_looks(self.n_looks, level)[self.number - 1].level

    def count_questions(self, n: int) -> int:
        """Return how many of n questions are answered for this look."""
        return math.ceil(n * self.number / self.n_looks)

    def predict_success(self, statistic: float) -> float:
        """Return the probability that the last look is a success; this one is before it.

        `statistic`: distance of the gain so far from the least one, in standard errors.
        """
        share = self.number / self.n_looks
        return _NORMAL.cdf((statistic - self.last_bound * math.sqrt(share)) / math.sqrt(1 - share))


@cache
def plan_looks(n_looks: int, level: float) -> tuple[Look, ...]:
    """Return the looks at a test with this two-sided level."""
    import numpy as np
    from scipy.optimize import bisect
    from scipy.special import ndtr

    bounds: list[float] = []
    edge, paths, spent = np.zeros(1), np.ones(1), 0.0  # where a path is, in standard errors of the whole test
    step = math.sqrt(1 / n_looks)
    for number in range(1, n_looks + 1):
        reached = math.sqrt(number / n_looks)
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
    return tuple(Look(number, n_looks, level, bound, bounds[-1]) for number, bound in enumerate(bounds, start=1))


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
        before, after = ACCURACY * (1 - ACCURACY), max(0.0, (ACCURACY + gain) * (1 - ACCURACY - gain))
        questions = before + after - 2 * SHARED_DIFFICULTY * math.sqrt(before * after)
        variance = correlation * questions + (1 - correlation) * (before + after) / epochs
        error = math.sqrt((variance + _EXTRA_ANSWERS / epochs / (n_questions - 1)) / n_questions)
        least = compute_smallest_difference(error, n_questions, level)
        return -1.0 if least is None else gain - min_gain - least - 1 / (n_questions * epochs)

    most = 1 - ACCURACY
    return float(bisect(compute_excess, 0.0, most)) if compute_excess(most) >= 0 else None


def describe_power(n_questions: int, epochs: int, min_gain: float = 0.0, level: float = FIRST_LEVEL) -> str:
    """Return a sentence about the smallest gain that the sealed set can show; arguments as above."""
    least = compute_smallest_gain(n_questions, epochs, min_gain=min_gain, level=level)
    asked = f"power: {format_count(n_questions, 'sealed question')}, {format_count(epochs, 'answer')} each"
    basis = f"assuming that {ACCURACY:.0%} are right now"
    if least is None:
        return f"{asked}: too few to show any gain reliably ({basis}); seal more, or raise gate.epochs"
    return f"{asked}: a true gain of {round(100 * least)} points passes the gate in 80 of 100 cases ({basis})"
