"""How sure the difference of two shares of right answers to the same questions is: Tango's score interval.

Source: T. Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample
design", Statistics in Medicine 17 (1998). All differences are held for possible that a score test would not reject:
where hardly a question differs, or none, it stays as wide as the number of questions makes it.

    score_interval(wins=8, losses=4, n=20)      # (-0.1421…, 0.4948…)
"""

import math
from statistics import NormalDist

from eval.intervals import CONFIDENCE, Interval

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_HALVINGS = 50  # of an interval at most 2 wide


def score_interval(wins: int, losses: int, n: int) -> Interval:
    """Bounds, -1 to 1, of the second system's share of right answers minus the first's.

    Args:
        wins: questions that only the second answered right.
        losses: questions that only the first did.
        n: questions in all, at least 1.
    """

    def end(inner: float, outer: float) -> float:
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2
            if abs(score(middle, wins, losses, n)) < _Z:
                inner = middle
            else:
                outer = middle
        return outer

    seen = (wins - losses) / n
    return end(seen, -1.0), end(seen, 1.0)


def score(difference: float, wins: int, losses: int, n: int) -> float:
    """How many standard errors what was seen is off the given difference, if that one is the true one."""
    linear = -wins - losses + (2 * n - wins + losses) * difference
    constant = -losses * difference * (1 - difference)
    share_lost = (math.sqrt(max(linear**2 - 8 * n * constant, 0.0)) - linear) / (4 * n)  # the likeliest, given it
    variance = n * (2 * share_lost + difference * (1 - difference))
    off = wins - losses - n * difference
    if variance <= 0:
        return 0.0 if off == 0 else math.copysign(math.inf, off)
    return off / math.sqrt(variance)
