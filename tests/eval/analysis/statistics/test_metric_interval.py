"""The interval of a mean of values from 0 to 1."""

from random import Random

import pytest

from eval.analysis.statistics.intervals import compute_clustered_interval, compute_metric_interval


def test_right_or_wrong_answers_have_the_interval_of_the_accuracy() -> None:
    assert compute_metric_interval([(1.0, 0.0), (1.0, 1.0), (0.0, 0.0)]) == compute_clustered_interval(
        [(1, 2), (2, 2), (0, 2)]
    )
    assert compute_metric_interval([]) is None
    assert compute_metric_interval([(), (1.0,)]) == compute_clustered_interval([(1, 1)])


def test_graded_answers_have_one_with_a_width_within_0_to_1() -> None:
    bounds = compute_metric_interval([(0.5,)] * 20)
    assert bounds and 0.4 < bounds[0] < 0.5 < bounds[1] < 0.6
    high = compute_metric_interval([(0.99,)] * 5)
    assert high and high[0] < 0.7 and 0.99 < high[1] <= 1
    assert compute_metric_interval([(0.5, 0.25)]) is None, "one sample says nothing about others"


def test_repeated_answers_narrow_it_as_much_as_they_differ() -> None:
    means = [0.4, 0.5, 0.6] * 10
    once, alike = [(mean,) for mean in means], [(mean,) * 3 for mean in means]
    apart = [(mean - 0.4, mean, mean + 0.4) for mean in means]
    widths = [high - low for low, high in filter(None, map(compute_metric_interval, (once, alike, apart)))]
    assert widths[0] == pytest.approx(widths[1]) and widths[2] < widths[1]


@pytest.mark.parametrize("n", [10, 40])
def test_it_contains_the_true_mean_in_95_of_100_cases(n: int) -> None:
    draw, held = Random(1), 0
    for _ in range(400):
        values = [(draw.betavariate(0.8, 1.2),) for _ in range(n)]
        bounds = compute_metric_interval(values)
        assert bounds
        held += bounds[0] <= 0.4 <= bounds[1]
    assert held / 400 >= 0.93


def test_a_rare_failure_is_expected_where_none_was_seen() -> None:
    """Equal grades in each epoch, of which 5 of 100 questions fail: Student's had the truth in 67 of 100 cases."""
    draw, held = Random(1), 0
    for _ in range(400):
        values = [(0.0 if draw.random() < 0.05 else draw.uniform(0.9, 1.0),) * 5 for _ in range(20)]
        bounds = compute_metric_interval(values)
        assert bounds
        held += bounds[0] <= 0.95 * 0.95 <= bounds[1]
    assert held / 400 >= 0.93
