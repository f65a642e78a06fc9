"""Estimate of a true gain that is known only because it passed a test.

A gain that is shown only if it is significant is too large on average (the winner's curse): of true gains of 5 points,
53 questions show only those that look like 11. The estimate follows from the normal likelihood of the seen gain,
divided by the probability that such a true gain passes. Its maximum is 0 for a gain that just passed, against an
interval that lies above 0, and its mean shrinks too little; their average is the compromise of A. Ghosh, F. Zou and F.
A. Wright, "Estimating odds ratios in genome scans: an approximate conditional likelihood approach", American J. Human
Genetics 82 (2008). The maximum: H. Zhong and R. L. Prentice, Biostatistics 9 (2008).

    shrink_gain(gain=0.113, standard_error=0.048, least_passing=0.094)      # 0.0404…
    shrink_gain(gain=0.30, standard_error=0.048, least_passing=0.094)       # 0.2999…

A test that may stop early passes about as often as its last look alone would, so the probability is that of the whole
test, and the gain is that of the answers so far:

    shrink_gain(gain=0.12, standard_error=0.048, least_passing=0.092, share=0.75)      # 0.0364…
"""

import math

_STEPS = 100  # of the grid in a standard error
_REACH = 8.0  # standard errors above the seen gain, beyond which nothing is likely


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
