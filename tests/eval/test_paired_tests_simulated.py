"""The paired statistics by simulation with known truth: the acceptance of what the gate and every comparison decide by.

Questions differ in difficulty (latent ICC 0.5), which is the same for A and B up to a part of it.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from eval.analysis.statistics.paired_tests import Pair, run_paired_test

SIZES = (20, 53, 165)  # questions: a small set, GAIA's Level 1, all of GAIA's validation split


def drawn(n: int, epochs: int, gain: float, random: Any, share: float = 0.35) -> list[Pair]:
    """Questions whose difficulty differs (latent ICC 0.5), the same for A and B up to a part of it."""
    shift = ndtri(share) * math.sqrt(2)
    gained = ndtri(share + gain) * math.sqrt(2)
    common, own = random.standard_normal(n), random.standard_normal((2, n))
    hard = math.sqrt(0.8) * common + math.sqrt(0.2) * own
    chances = ndtr(np.array([[shift], [gained]]) + hard)
    answers = [(random.random((n, epochs)) < chance[:, None]).tolist() for chance in chances]
    return [Pair(a, b) for a, b in zip(*answers, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("epochs", [1, 5])
@pytest.mark.parametrize("share", [0.4])
def test_intervals_cover_the_truth_and_equal_systems_are_seldom_called_different(
    n: int, epochs: int, share: float
) -> None:
    random = np.random.default_rng([n, epochs, round(10 * share)])
    equal = [run_paired_test(drawn(n, epochs, 0.0, random, share)) for _ in range(1000)]
    better = [run_paired_test(drawn(n, epochs, 0.1, random, share)) for _ in range(1000)]
    for truth, results in ((0.0, equal), (0.1, better)):
        inside = sum(result.ci95[0] <= truth <= result.ci95[1] for result in results if result.ci95)
        assert 930 <= inside <= (975 if truth else 999), truth  # it contains 0 unless the exact test rejects it
    assert sum(result.p < 0.05 for result in equal) <= 65
    assert sum(not result.ci95[0] <= 0 <= result.ci95[1] for result in equal if result.ci95) <= 65


def test_the_smallest_difference_is_seen_in_four_of_five_cases() -> None:
    random = np.random.default_rng(9)
    promised = [run_paired_test(drawn(53, 3, 0.15, random)).smallest_difference for _ in range(300)]
    gain = float(np.mean([each for each in promised if each]))
    seen = sum(run_paired_test(drawn(53, 3, gain, random)).p < 0.05 for _ in range(500)) / 500
    assert 0.74 <= seen <= 0.88
