"""What passes the gate, what does not, and the sentences that say so."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from eval.analysis.comparison.comparison import Comparison, build_answers, compare_answers
from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.runs.record import Record
from optimize.gate.gate import ASSUMED_ACCURACY, SHARED_DIFFICULTY, compute_smallest_gain, judge, plan_looks
from optimize.gate.sealed_log import FIRST_LEVEL


def records(rights: Sequence[Sequence[bool]]) -> list[Record]:
    """A question a row, an epoch a column."""
    return [
        Record("r", f"q{place}", epoch, 1, "t", "?", None, "1", "17", answer="17", score=float(right))
        for place, row in enumerate(rights)
        for epoch, right in enumerate(row, start=1)
    ]


def made(wins: int, losses: int, ties: int) -> Comparison:
    before, after = [[False]] * wins + [[True]] * losses, [[True]] * wins + [[False]] * losses
    return compare_answers(*(build_answers(records(each + [[False]] * ties)) for each in (before, after)))


def test_a_clear_gain_is_published_and_the_reasons_say_why() -> None:
    verdict = judge(made(12, 1, 40))
    assert (verdict["published"], verdict["finish_reason"]) == (True, "improved")
    assert verdict["gain"] == pytest.approx(11 / 53)
    assert verdict["gain_ci95"] is not None
    assert verdict["gain_ci95"][0] > 0
    assert "+20.8 points" in verdict["reasons"][0]
    assert "53 questions" in verdict["reasons"][0]
    assert "p is 0.00342 (exact McNemar), at most the required 0.03." in verdict["reasons"][1]
    assert verdict["gate"]["checks"] == [f"passed: {each}" for each in verdict["reasons"]]


@pytest.mark.parametrize(
    ("before", "after", "means", "published"),
    [
        ([0.3] * 20, [0.9] * 20, (0.3, 0.9), True),  # no answer is fully right, before or after
        ([0.95] * 18 + [1.0] * 2, [0.0] * 15 + [1.0] * 5, (0.955, 0.25), False),  # more are fully right
    ],
)
def test_graded_scores_are_judged_by_their_mean(
    before: list[float], after: list[float], means: tuple[float, float], published: bool
) -> None:
    sides = [[replace(record, score=score) for record, score in zip(records([[True]] * 20), scores, strict=True)]
             for scores in (before, after)]  # fmt: skip
    found = compare_answers(*(build_answers(side, {"_target_": "my_rules.grade"}) for side in sides))
    assert (found.metric, found.first.score, found.second.score) == ("mean score", *map(pytest.approx, means))
    verdict = judge(found)
    assert verdict["published"] is published
    assert verdict["gain"] == pytest.approx(means[1] - means[0])
    assert verdict["reasons"][0].startswith("The gain in mean score on the sealed questions is ")


def test_no_gain_and_an_unclear_one_are_not_published_and_interval_and_p_refuse_together() -> None:
    for found in (made(0, 0, 20), made(1, 5, 14), made(6, 3, 44)):
        assert not judge(found)["published"]
    verdict = judge(made(5, 0, 48))
    assert (verdict["published"], verdict["finish_reason"]) == (False, "not_significant")
    assert verdict["gain_ci95"] and verdict["gain_ci95"][0] == 0
    assert re.search(r"; the 97% interval, 0 to \+\d+\.\d, does not lie above 0\.$", verdict["reasons"][0])
    assert verdict["reasons"][1] == "p is 0.0625 (exact McNemar), above the required 0.03."
    assert verdict["gate"]["checks"] == [f"failed: {each}" for each in verdict["reasons"]]


def test_one_question_passes_no_gate() -> None:
    verdict = judge(made(1, 0, 0))
    assert not verdict["published"]
    assert any("there is no interval that could lie above" in each for each in verdict["reasons"])


RUNS = 300
_LEVELS = (np.arange(2_000) + 0.5) / 2_000


@cache
def chances(accuracy: float, correlation: float) -> Any:
    """Of a right answer, by question, the hardest first: a beta distribution, under which answers correlate so."""
    spread = 1 / correlation - 1
    return beta.ppf(_LEVELS, accuracy * spread, (1 - accuracy) * spread)


def simulate_pairs(n: int, epochs: int, gain: float, correlation: float, runs: int = RUNS) -> Iterator[list[Pair]]:
    """Sealed answers of simulated runs."""
    rng = np.random.default_rng(1)
    before, after = chances(ASSUMED_ACCURACY, correlation), chances(ASSUMED_ACCURACY + gain, correlation)
    alike = SHARED_DIFFICULTY / np.corrcoef(before, after)[0, 1]  # share of questions that keep their rank
    for _ in range(runs):
        first = rng.integers(0, len(_LEVELS), n)
        second = np.where(rng.random(n) < alike, first, rng.integers(0, len(_LEVELS), n))
        a = rng.random((n, epochs)) < before[first][:, None]
        b = rng.random((n, epochs)) < after[second][:, None]
        yield [
            Pair(tuple(x), tuple(y)) for x, y in zip(a.astype(float).tolist(), b.astype(float).tolist(), strict=True)
        ]


def share_passing(n: int, epochs: int, gain: float, correlation: float) -> float:
    """Simulated runs that pass the gate, with the real test."""
    passed = 0
    for pairs in simulate_pairs(n, epochs, gain, correlation):
        result = run_paired_test(pairs)
        interval = result.compute_interval(FIRST_LEVEL)
        assert interval is not None
        passed += interval[0] > 0 and result.p <= FIRST_LEVEL
    return passed / RUNS


@pytest.mark.parametrize(
    ("n", "epochs", "correlation"),
    [(53, 1, 0.3), (53, 1, 0.5), (53, 5, 0.3), (53, 5, 0.8), (26, 3, 0.5), (120, 2, 0.5), (250, 1, 0.5)],
)
def test_the_smallest_gain_passes_the_gate_in_80_of_100_simulated_runs(n: int, epochs: int, correlation: float) -> None:
    gain = compute_smallest_gain(n, epochs, correlation=correlation)
    assert gain is not None
    assert share_passing(n, epochs, gain, correlation) == pytest.approx(0.8, abs=0.09)  # one standard error is 0.023


def test_an_early_look_asks_for_more_and_its_intervals_are_wider() -> None:
    gains, plan = made(12, 2, 13), plan_looks(4, FIRST_LEVEL)
    whole, second = judge(gains), judge(gains, plan[1])
    assert (whole["published"], second["published"]) == (True, False)
    assert (
        "adjusted for the looks; 27 questions" in second["reasons"][0] and "the 97% interval, " in second["reasons"][0]
    )
    assert "above the required 0.00116 at look 2 of 4." in second["reasons"][1]
    assert second["gain_ci95"] == gains.score.compute_interval(plan_looks(4, 0.05)[1].level)
    assert second["sealed"]["gain_interval"] == gains.score.compute_interval(plan[1].level)
    assert whole["gain_ci95"] == gains.score.ci95 and (second["sealed"]["level"], whole["sealed"]["level"]) == (
        0.03,
        0.03,
    )


@pytest.mark.slow
def test_a_repeated_interval_holds_at_all_looks_together() -> None:
    """Whoever stops at the look whose interval misses the truth is right as often as with one look."""
    plan, random, missed, runs = plan_looks(4, 0.1), np.random.default_rng(3), 0, 400
    for _ in range(runs):
        gains = random.choice([-1.0, 0.0, 1.0], 80, p=[0.1, 0.6, 0.3])
        pairs = [Pair((max(-each, 0.0),), (max(each, 0.0),)) for each in gains.tolist()]
        found = [
            run_paired_test(pairs[: 20 * number]).compute_interval(plan[number - 1].level) for number in (1, 2, 3, 4)
        ]
        missed += any(each is None or not each[0] <= 0.2 <= each[1] for each in found)
    assert missed / runs < 0.1 + 2 * math.sqrt(0.1 * 0.9 / runs)
