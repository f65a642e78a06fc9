"""What a sealed set can show, against simulated tests of simulated prompts."""

import math
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from eval.analysis.statistics.paired_tests import (
    Pair,
    compute_smallest_difference,
    compute_standard_error,
    run_paired_test,
)
from optimize.gate import power
from optimize.gate.power import (
    ACCURACY,
    SHARED_DIFFICULTY,
    compute_questions_needed,
    compute_smallest_gain,
    compute_smallest_margin,
    describe_margin,
    describe_power,
    power_table,
)

RUNS = 300
_LEVELS = (np.arange(2_000) + 0.5) / 2_000


@cache
def chances(accuracy: float, correlation: float) -> Any:
    """Of a right answer, by question, the hardest first: a beta distribution, under which answers correlate so."""
    spread = 1 / correlation - 1
    return beta.ppf(_LEVELS, accuracy * spread, (1 - accuracy) * spread)


def share_passing(n: int, epochs: int, gain: float, correlation: float, margin: float | None = None) -> float:
    """Simulated runs that pass the gate, with the real test."""
    rng = np.random.default_rng(1)
    before, after = chances(ACCURACY, correlation), chances(ACCURACY + gain, correlation)
    alike = SHARED_DIFFICULTY / np.corrcoef(before, after)[0, 1]  # share of questions that keep their rank
    passed = 0
    for _ in range(RUNS):
        first = rng.integers(0, len(_LEVELS), n)
        second = np.where(rng.random(n) < alike, first, rng.integers(0, len(_LEVELS), n))
        a = rng.random((n, epochs)) < before[first][:, None]
        b = rng.random((n, epochs)) < after[second][:, None]
        pairs = [
            Pair(tuple(x), tuple(y)) for x, y in zip(a.astype(float).tolist(), b.astype(float).tolist(), strict=True)
        ]
        result = run_paired_test(pairs)
        assert result.ci95 is not None
        passed += result.ci95[0] >= -margin if margin is not None else result.ci95[0] > 0 and result.p <= 0.05
    return passed / RUNS


@pytest.mark.parametrize(
    ("n", "epochs", "correlation"),
    [(53, 1, 0.3), (53, 1, 0.5), (53, 5, 0.3), (53, 5, 0.8), (26, 3, 0.5), (120, 2, 0.5), (250, 1, 0.5)],
)
def test_the_smallest_gain_passes_the_gate_in_80_of_100_simulated_runs(n: int, epochs: int, correlation: float) -> None:
    gain = compute_smallest_gain(n, epochs, correlation=correlation)
    assert gain is not None
    assert share_passing(n, epochs, gain, correlation) == pytest.approx(0.8, abs=0.09)  # one standard error is 0.023


def test_half_of_that_gain_mostly_does_not_pass() -> None:
    gain = compute_smallest_gain(53, 5)
    assert gain is not None
    assert share_passing(53, 5, gain / 2, 0.5) < 0.4


def test_prompts_as_good_pass_with_the_smallest_margin_in_80_of_100_simulated_runs() -> None:
    margin = compute_smallest_margin(60, 5)
    assert margin is not None
    assert share_passing(60, 5, 0.0, 0.5, margin) == pytest.approx(0.8, abs=0.06)


def test_the_gains_are_those_that_were_measured_for_gaia_level_1() -> None:
    gains = {(n, k): compute_smallest_gain(n, k, accuracy=0.35) or 1.0 for n in (26, 53) for k in (1, 3, 5, 10)}
    assert 0.18 <= gains[53, 1] <= 0.24
    assert 0.13 <= gains[53, 3] <= 0.15
    assert 0.11 <= gains[53, 5] <= 0.14
    assert 0.09 <= gains[53, 10] <= 0.13
    assert 0.17 <= gains[26, 5] <= 0.20
    assert gains[53, 1] > gains[53, 3] > gains[53, 5] > gains[53, 10]


def test_more_questions_more_answers_and_no_least_gain_show_smaller_gains() -> None:
    gains = [compute_smallest_gain(*each) for each in ((50, 3), (100, 3), (100, 5), (1_000, 5))]
    assert all(one is not None and other is not None and one > other for one, other in pairwise(gains))
    with_least = compute_smallest_gain(100, 5, min_gain=0.05)
    assert with_least is not None and gains[2] is not None
    assert with_least > gains[2] + 0.04


def test_too_few_questions_show_nothing() -> None:
    assert compute_smallest_gain(2, 5) is None
    assert compute_smallest_gain(30, 1, accuracy=0.95) is None
    assert compute_smallest_gain(200, 5, accuracy=1.0) is None
    assert "too few to show any gain" in describe_power(2, 1)


def test_the_standard_error_is_that_of_the_paired_test() -> None:
    random = Random(0)
    differences = [random.choice([-1.0, -0.5, 0.0, 0.0, 0.5, 1.0]) for _ in range(400)]
    mean = math.fsum(differences) / 400
    variance = math.fsum((each - mean) ** 2 for each in differences) / 399
    ours = math.sqrt((variance + power._EXTRA_ANSWERS / 2 / 399) / 400)
    assert compute_standard_error(differences, epochs=2) == pytest.approx(ours)


def test_as_many_questions_are_needed_as_would_show_the_gain() -> None:
    for gain, sd in ((0.06, 0.31), (0.2, 0.4), (0.01, 0.3), (0.9, 0.1)):
        n = compute_questions_needed(gain, sd)
        assert n is not None
        shown, before = (compute_smallest_difference(sd / math.sqrt(each), each) or 2 for each in (n, n - 1))
        assert shown <= gain
        assert n == 2 or before > gain
    assert compute_questions_needed(0.0, 0.3) is None
    assert compute_questions_needed(-0.1, 0.3) is None
    assert compute_questions_needed(1e-6, 0.5) is None


def test_the_line_says_what_it_rests_on() -> None:
    assert describe_power(53, 5) == (
        "power: 53 sealed questions, 5 answers each: a true gain of 13 points passes the gate in 80 of 100 cases "
        "(assuming that 40% are right now; the same for answers to one question that are less or more alike)"
    )
    assert "with 62% right on validation" in describe_power(53, 1, accuracy=0.62)


def test_with_a_cost_objective_the_line_is_about_the_margin() -> None:
    assert "will mostly fail a margin of 2 points" in describe_margin(53, 5, 0.02)
    assert "pass with a margin of 50 points" in describe_margin(53, 5, 0.5)
    assert describe_margin(2, 1, 0.02).endswith("raise gate.epochs or gate.margin")


def test_the_table_has_a_line_for_each_size() -> None:
    lines = power_table().splitlines()
    assert len(lines) == 2 + 7 * 4
    assert lines[10].startswith("| 53 | 1 | ")


@pytest.mark.parametrize("wrong", [{"n_questions": 1}, {"epochs": 0}, {"accuracy": 1.1}, {"correlation": -0.1}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected at least 2"):
        compute_smallest_gain(**{"n_questions": 53, "epochs": 5, **wrong})  # type: ignore[arg-type]
