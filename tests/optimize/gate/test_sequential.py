"""Looks at a sealed test: the bounds are the published ones, and the level holds."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from eval.analysis.statistics.paired_tests import Pair, PairedResult, run_paired_test
from optimize.gate.gate import MAX_LOOKS, Look, LookDecision, decide_look, plan_looks
from optimize.gate.sealed_log import MIN_LEVEL
from scripts.sequential_gate import build_comparison


def decide(plan: tuple[Look, ...], number: int, score: PairedResult) -> LookDecision:
    return decide_look(build_comparison(score), plan[number - 1])


@pytest.mark.parametrize(
    ("n_looks", "bounds"),
    [  # of D. M. Reboussin, D. L. DeMets, K. Kim and K. K. G. Lan, Controlled Clinical Trials 21, 2000
        (1, [1.960]),
        (2, [2.963, 1.969]),
        (3, [3.710, 2.511, 1.993]),
        (4, [4.333, 2.963, 2.359, 2.014]),
        (5, [4.877, 3.357, 2.680, 2.290, 2.031]),
    ],
)
def test_bounds_are_those_that_are_published(n_looks: int, bounds: list[float]) -> None:
    assert [look.bound for look in plan_looks(n_looks, 0.05)] == pytest.approx(bounds, abs=0.001)


@pytest.mark.parametrize("level", [0.03, 0.0075])
def test_paths_without_an_effect_cross_a_bound_as_often_as_the_level_says(level: float) -> None:
    plan, n_paths = plan_looks(4, level), 400_000
    steps = np.random.default_rng(1).standard_normal((n_paths, 4))
    statistics = steps.cumsum(1) / np.sqrt(np.arange(1, 5))
    crossed = (np.abs(statistics) >= [look.bound for look in plan]).any(1).mean()
    assert crossed == pytest.approx(level, abs=4 * np.sqrt(level / n_paths))


@pytest.mark.parametrize("level", [0.05, 0.03, 0.0075, MIN_LEVEL])
@pytest.mark.parametrize("n_looks", [4, MAX_LOOKS])
def test_each_number_of_looks_has_bounds_at_each_level_of_a_repeated_test(n_looks: int, level: float) -> None:
    plan = plan_looks(n_looks, level)
    assert all(earlier.bound > later.bound for earlier, later in pairwise(plan))
    assert norm.ppf(1 - level / 2) < plan[-1].bound
    spent = 4 * norm.cdf(norm.ppf(level / 4) * np.sqrt(n_looks))  # at the first look
    assert 2 * norm.cdf(-plan[0].bound) == pytest.approx(spent, rel=1e-6)


def test_one_look_is_the_test_itself() -> None:
    plan = plan_looks(1, 0.03)
    assert [look.level for look in plan] == [pytest.approx(0.03)]
    won = run_paired_test([Pair((0.0,), (1.0,))] * 12 + [Pair((1.0,), (0.0,))] + [Pair((0.0,), (0.0,))] * 40)
    assert decide(plan, 1, won) == "success"


def test_the_level_grows_with_each_look_and_the_questions_with_it() -> None:
    plan = plan_looks(4, 0.03)
    assert all(earlier.level < later.level for earlier, later in pairwise(plan))
    assert plan[-1].level < 0.03
    assert [look.count_questions(53) for look in plan] == [14, 27, 40, 53]
    assert plan[0].count_questions(2) == 1


def test_a_test_ends_early_if_it_is_won_or_hopeless_and_else_goes_on() -> None:
    plan = plan_looks(4, 0.03)
    tie, win, loss = Pair((0.0,), (0.0,)), Pair((0.0,), (1.0,)), Pair((1.0,), (0.0,))
    assert decide(plan, 2, run_paired_test([win] * 15 + [tie] * 12)) == "success"
    assert decide(plan, 2, run_paired_test([win] * 4 + [tie] * 23)) == "continue"
    assert decide(plan, 2, run_paired_test([tie] * 27)) == "hopeless"
    assert decide(plan, 2, run_paired_test([loss] * 15 + [tie] * 12)) == "hopeless", "a loss is never a success"
    assert decide(plan, 1, run_paired_test([win])) == "continue", "one question shows nothing"
    assert decide(plan, 4, run_paired_test([win] * 4 + [tie] * 49)) == "hopeless"


def test_what_is_predicted_is_what_happens_without_any_other_knowledge() -> None:
    """The true effect is as likely anywhere; of the paths near a statistic at half of the answers, so many succeed."""
    plan, random, n_paths = plan_looks(2, 0.05), np.random.default_rng(2), 400_000
    drift = random.uniform(-8, 8, n_paths)
    half = drift / 2 + random.standard_normal(n_paths) * np.sqrt(0.5)
    whole = half + drift / 2 + random.standard_normal(n_paths) * np.sqrt(0.5)
    near = np.abs(half / np.sqrt(0.5) - 1.5) < 0.05
    succeeded = (whole[near] >= plan[-1].bound).mean()
    assert plan[0].predict_success(1.5) == pytest.approx(succeeded, abs=0.03)
    assert norm.cdf((1.5 - plan[-1].bound * np.sqrt(0.5)) / np.sqrt(0.5)) == plan[0].predict_success(1.5)
