"""How sure an accuracy is: Wilson's 95% score interval for a proportion.

Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927);
computed by scipy. Wilson rather than the textbook normal interval, which has no width at 0 of n and n of n.

    accuracy_interval(20, 53)      # (0.2594…, 0.5120…)
"""

CONFIDENCE = 0.95


def accuracy_interval(n_correct: int, n: int) -> tuple[float, float] | None:
    """Lower and upper bound, both within 0 to 1; None for `n == 0`, where nothing at all is known.

    The n answers are taken as independent: repeats of one question are not, and make the interval too narrow.

    Raises:
        ValueError: `n_correct` is negative or above `n`.
    """
    if not 0 <= n_correct <= n:  # not every version of scipy says so
        raise ValueError(f"n_correct={n_correct} of n={n}; expected 0 to n")
    if n == 0:
        return None
    from scipy.stats import binomtest

    interval = binomtest(n_correct, n).proportion_ci(confidence_level=CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)
