import numpy as np
import pytest
from scipy.stats import binom, binomtest

from eval.analysis.statistics.intervals import (
    Tally,
    compute_clustered_interval,
    compute_icc,
    compute_mean_interval,
    compute_share_interval,
)


def plain(k: int, n: int) -> tuple[float, float]:
    """Return the interval of one answer to each of n questions."""
    return compute_share_interval(k / n, n, n)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 53), (53, 53), (165, 165)])
def test_all_right_and_none_right_have_the_exact_bound(k: int, n: int) -> None:
    expected = binomtest(k, n).proportion_ci(method="exact")
    assert plain(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("n", [20, 53, 165])
def test_single_answers_are_covered_in_93_to_99_9_of_100_cases(n: int) -> None:
    """Exactly: the sum over all numbers of right answers. Wilson's own interval has 92.5 for 20 that are 95 % right."""
    counts = np.arange(n + 1)
    bounds = np.array([plain(int(k), n) for k in counts])
    for share in (0.35, 0.37, 0.45, 0.85, 0.87, 0.95):
        held = (bounds[:, 0] <= share) & (share <= bounds[:, 1])
        assert 0.93 <= binom.pmf(counts, n, share)[held].sum() <= 0.999


def test_one_question_says_nothing_about_others() -> None:
    assert compute_clustered_interval([(2, 5)]) == (0.0, 1.0)


def test_no_questions_have_no_interval() -> None:
    assert compute_clustered_interval([]) is None
    assert compute_mean_interval([], max_n=1) is None


def test_intraclass_correlation_agrees_with_the_analysis_of_variance_by_hand() -> None:
    # between: 3((5/9)² + (4/9)² + (1/9)²)/2 = 7/9; within: (2/3)/6 = 1/9; (7/9 - 1/9)/(7/9 + 2·1/9) = 2/3
    assert compute_icc([(3, 3), (0, 3), (1, 3)]) == pytest.approx(2 / 3)
    assert compute_icc([(1, 2)] * 10) == 0.0, "below 0 is cut"


def test_repeats_that_always_agree_prove_no_more_than_the_questions_do() -> None:
    assert compute_clustered_interval([(5, 5)] * 20 + [(0, 5)] * 33) == pytest.approx(plain(20, 53))
    for tallies in ([(5, 5)] * 20, [(0, 5)] * 20):
        low, high = compute_clustered_interval(tallies) or (0.0, 0.0)
        assert (low, high) == pytest.approx(compute_share_interval(tallies[0][0] / 5, len(tallies), len(tallies)))
        assert high - low > 0.1, "never without width"


def test_repeats_as_different_as_any_answers_count_in_full() -> None:
    assert compute_clustered_interval([(1, 2)] * 30) == pytest.approx(compute_share_interval(0.5, 60, 30))


def test_a_mean_is_never_surer_than_the_tries_there_were() -> None:
    alike = compute_mean_interval([0.5] * 10, max_n=30)
    assert alike == pytest.approx(plain(5, 10)), "nothing varies: the questions"
    assert compute_mean_interval([0.4, 0.6] * 10, max_n=60) == pytest.approx(compute_share_interval(0.5, 60, 20))
    assert compute_mean_interval([1.0] * 10, max_n=30) == pytest.approx(plain(10, 10))


RUNS = 400


def drawn(rng: np.random.Generator, share: float, icc: float, n: int, k: int) -> list[list[int]]:
    """Correct answers of k to each of n questions, in many runs; questions differ in how hard they are (beta)."""
    if icc == 0:
        chances = np.full((RUNS, n), share)
    elif icc == 1:
        chances = (rng.random((RUNS, n)) < share).astype(float)
    else:
        chances = rng.beta(share * (1 - icc) / icc, (1 - share) * (1 - icc) / icc, (RUNS, n))
    drawn: list[list[int]] = rng.binomial(k, chances).tolist()
    return drawn


def covered(runs: list[list[int]], share: float, k: int) -> float:
    def holds(tallies: list[Tally]) -> bool:
        low, high = compute_clustered_interval(tallies) or (1.0, 0.0)
        return low <= share <= high

    return sum(holds([(correct, k) for correct in run]) for run in runs) / len(runs)


@pytest.mark.parametrize("n", [20, 53, 165])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_intervals_hold_the_true_accuracy_in_about_95_of_100_runs(n: int, k: int) -> None:
    rng = np.random.default_rng(20 * n + k)
    cells = [(share, icc) for share in (0.3, 0.5, 0.8) for icc in ((0.0, 0.2, 0.5, 0.8, 1.0) if k > 1 else (0.0,))]
    shares = [covered(drawn(rng, share, icc, n, k), share, k) for share, icc in cells]
    assert 0.94 <= sum(shares) / len(shares) <= 0.985  # of 20 single answers there are few outcomes
    assert min(shares) >= 0.92  # one cell of 400 runs strays by 0.01 (one standard deviation) through luck alone
