"""The verdict on a change: its rule, and by simulation how often it is right (docs/explanation/intervals.md)."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from eval.analysis.comparison.regression_gate import Effect, Judgement, judge_effect, measure_ratio, measure_shares
from eval.analysis.statistics.paired_tests import Pair

MARGIN, LEVEL = 0.02, 0.05


def drawn(n: int, epochs: int, loss: float, random: Any, share: float = 0.8, icc: float = 0.5) -> list[Pair]:
    """Questions that differ in difficulty, the same for both runs; the new one's true share is lower by the loss."""
    common = math.sqrt(icc / (1 - icc)) * random.standard_normal(n)
    scale = math.sqrt(1 + icc / (1 - icc))
    chances = (ndtr(scale * ndtri(each) + common)[:, None] for each in (share, share - loss))
    answers = [(random.random((n, epochs)) < each).astype(float).tolist() for each in chances]
    return [Pair(a, b) for a, b in zip(*answers, strict=True)]


def count(n: int, epochs: int, loss: float, comparisons: int, share: float = 0.8, icc: float = 0.5) -> Counter[str]:
    random = np.random.default_rng([n, epochs, round(1000 * loss), round(10 * share), round(10 * icc)])
    made = (measure_shares(drawn(n, epochs, loss, random, share, icc)) for _ in range(comparisons))
    return Counter(judge_effect(each, MARGIN, LEVEL).verdict for each in made)


def shares(wins: int, losses: int, n: int) -> Effect:
    return measure_shares(
        [Pair((0,), (1,))] * wins + [Pair((1,), (0,))] * losses + [Pair((1,), (1,))] * (n - wins - losses)
    )


def judged(wins: int, losses: int, n: int, margin: float = MARGIN) -> Judgement:
    return judge_effect(shares(wins, losses, n), margin, LEVEL)


def test_the_bounds_decide() -> None:
    passed, failed, open_ = judged(5, 5, 4000), judged(10, 60, 200), judged(5, 5, 100)
    assert (passed.verdict, failed.verdict, open_.verdict) == ("pass", "fail", "inconclusive")
    assert passed.bounds[0] > -MARGIN
    assert failed.bounds[1] < -MARGIN
    assert open_.bounds[0] < -MARGIN < open_.bounds[1]
    assert judged(30, 2, 200, margin=0).verdict == "pass", "a gain"
    assert judged(0, 0, 4000, margin=0).verdict == "inconclusive"


def test_few_questions_that_all_end_the_same_do_not_pass() -> None:
    assert judged(0, 0, 100).verdict == "inconclusive"
    needed = judged(0, 0, 100).questions_needed
    assert needed and judged(0, 0, needed).verdict == "pass"
    assert judged(0, 0, needed - 5).verdict == "inconclusive"


def test_a_difference_that_equal_programs_might_well_show_does_not_fail() -> None:
    found = judged(1, 8, 30)
    assert found.bounds[1] < -MARGIN
    assert (found.verdict, found.by_chance) == ("inconclusive", True)
    assert judge_effect(shares(1, 8, 30), MARGIN, LEVEL, same_program=LEVEL).verdict == "fail"


def test_amounts_are_compared_by_the_ratio_of_their_means() -> None:
    pairs = [Pair((1.0 + n % 3, 1.0), (2.2 + 2 * (n % 3), 2.2)) for n in range(30)]
    effect = measure_ratio(pairs)
    assert math.exp(-effect.gain) == pytest.approx(effect.second / effect.first)
    assert effect.second == pytest.approx(2 * effect.first + 0.2)
    assert judge_effect(effect, math.log1p(0.1), LEVEL).verdict == "fail"
    halved = measure_ratio([Pair(pair.second, pair.first) for pair in pairs])
    assert halved.gain == pytest.approx(-effect.gain)
    assert judge_effect(halved, math.log1p(0.1), LEVEL).verdict == "pass", "less is better"
    same = measure_ratio([Pair((0.5,), (0.5,))] * 9)
    assert judge_effect(same, math.log1p(0.1), LEVEL).verdict == "pass"


@pytest.mark.parametrize("pairs", [[Pair((0.0,), (1.0,))] * 3, [Pair((1.0,), (1.0,)), Pair((0.0,), (0.0,))]])
def test_amounts_without_a_ratio_are_refused(pairs: list[Pair]) -> None:
    with pytest.raises(ValueError, match=r"positive amounts|domain"):
        measure_ratio(pairs)


def test_a_program_is_not_failed_by_itself_and_a_real_loss_is_caught() -> None:
    assert count(165, 5, 0.0, 200)["fail"] <= 2
    assert count(165, 5, 0.10, 200)["fail"] >= 180


@pytest.mark.slow
def test_verdicts_are_as_often_right_as_the_docs_say() -> None:
    share, icc = 0.8, 0.5
    for n, epochs in ((20, 1), (53, 5), (165, 5)):
        found = {loss: count(n, epochs, loss, 400, share, icc) for loss in (0.0, 0.01, MARGIN)}
        assert found[0.0]["fail"] <= 6, (n, epochs, "a program compared with itself")
        assert found[0.01]["fail"] <= 400 * LEVEL + 5, (n, epochs, "a loss within the margin")
        assert found[MARGIN]["pass"] <= 400 * LEVEL + 16, (n, epochs, "a loss of the margin; 3.6 standard errors")
    assert count(165, 5, 0.10, 400, share, icc)["fail"] >= 360


# The numbers of an effect, and its verdict at the edges.

SPLIT = [Pair((1.0, 0.0), (1.0, 1.0)), Pair((0.0, 0.0), (0.0, 1.0)), Pair((1.0, 1.0, 0.5), (0.0, 1.0))]


def test_shares_have_the_means_and_the_interval_of_their_paired_test() -> None:
    effect = measure_shares(SPLIT)
    assert (effect.first, effect.second) == (pytest.approx((0.5 + 0 + 5 / 6) / 3), pytest.approx(2 / 3))
    assert effect.paired is not None and effect.gain == effect.paired.difference
    assert effect.compute_bounds(0.1) == effect.paired.compute_interval(0.2)
    assert effect.variance == pytest.approx((effect.paired.standard_error or 0.0) ** 2 * 3)
