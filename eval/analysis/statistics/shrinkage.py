"""Estimate of a true gain that is known only because it passed a test.

A gain that is shown only if it is significant is too large on average (the winner's curse): of true gains of 5 points,
53 questions show only those that look like 11. The estimate is the gain that is likeliest, given that something passed:
the maximum of the normal likelihood of the seen gain, truncated at the least gain that would have passed. Source: H.
Zhong and R. L. Prentice, "Bias-reduced estimators and confidence intervals for odds ratios in genome-wide association
studies", Biostatistics 9 (2008).

    shrink_gain(gain=0.113, standard_error=0.048, least_passing=0.094)      # 0.0070…
    shrink_gain(gain=0.30, standard_error=0.048, least_passing=0.094)       # 0.2999…
"""

import math

_HALVINGS = 50
_FAR = 30.0  # standard errors, beyond which a normal tail's mean excess is negligible and the tail may round to 0


def shrink_gain(gain: float, standard_error: float, least_passing: float) -> float:
    """Return the estimate of the true gain, 0 to `gain`.

    Args:
        gain: that was seen, at least `least_passing`.
        standard_error: of the gain, above 0.
        least_passing: the smallest gain that would have passed.
    """

    def exceeds_expected(true_gain: float) -> bool:
        """Return whether the seen gain is above the mean of the gains that pass if this is the true one."""
        return gain > true_gain + standard_error * _compute_mean_excess((least_passing - true_gain) / standard_error)

    low, high = 0.0, gain
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds_expected(middle) else (low, middle)
    return high if low else 0.0


def _compute_mean_excess(cut: float) -> float:
    """Return the mean of the standard normal distribution above a point."""
    if cut > _FAR:
        return cut
    return math.exp(-(cut**2) / 2) / math.sqrt(2 * math.pi) / (math.erfc(cut / math.sqrt(2)) / 2)
