"""Means of amounts of two systems, and Student's interval of their difference."""

import pytest

from eval.analysis.statistics.paired_tests import compare_means

PAIRS = [(0.02, 0.01), (0.05, 0.02), (0.03, 0.02)]


def test_the_difference_has_students_interval() -> None:
    found = compare_means(PAIRS)
    assert found is not None and found.n_questions == 3
    assert (found.first, found.second, found.difference) == pytest.approx((0.1 / 3, 0.05 / 3, -0.05 / 3))
    # differences -0.01, -0.03 and -0.01: standard deviation 0.011547, over the root of 3; t with 2 degrees: 4.302653
    assert found.ci95 == pytest.approx((-0.0166667 - 4.302653 * 0.0066667, -0.0166667 + 4.302653 * 0.0066667), rel=1e-4)


def test_one_sample_has_no_interval_and_none_no_means() -> None:
    one = compare_means(PAIRS[:1])
    assert compare_means([]) is None and one is not None and one.ci95 is None
