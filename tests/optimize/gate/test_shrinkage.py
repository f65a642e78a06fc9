"""The shrunken gain against its likelihood, computed the slow way, and by simulation."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from optimize.gate.looks import shrink_gain


@pytest.mark.parametrize("gain", [0.10, 0.113, 0.14, 0.2, 0.35])
@pytest.mark.parametrize("error", [0.03, 0.048])
def test_it_lies_between_the_likeliest_gain_of_those_that_pass_and_their_mean(gain: float, error: float) -> None:
    least = 1.96 * error

    def unlikely(true: float) -> float:
        return float(norm.logsf(least, true, error) - norm.logpdf(gain, true, error))

    found = minimize_scalar(unlikely, bounds=(0, gain), method="bounded", options={"xatol": 1e-9}).x
    weight, moment = (
        quad(lambda true, power=power: true**power * np.exp(-unlikely(true)), 0, gain + 8 * error, limit=200)[0]
        for power in (0, 1)
    )
    assert shrink_gain(gain, error, least) == pytest.approx(min((found + moment / weight) / 2, gain), abs=3e-4)


def test_a_gain_that_just_passes_is_shrunken_most_but_not_to_nothing_and_a_clear_one_stays() -> None:
    assert 0.02 < shrink_gain(0.0941, 0.048, 0.094) < 0.035, "its interval lies above 0: it is not likely to be none"
    assert shrink_gain(0.4, 0.048, 0.094) == pytest.approx(0.4, abs=1e-3)
    assert shrink_gain(0.4, 0.001, 0.05) == pytest.approx(0.4)
    assert 0 < shrink_gain(0.0501, 0.001, 0.05) < 0.045, "the least gain may be many standard errors above 0"
