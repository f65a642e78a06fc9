"""Means of amounts of two systems, and Student's interval of their difference."""

import pytest

from eval.analysis.statistics.paired_means import compare_means

PAIRS = [(0.02, 0.01), (0.05, 0.02), (0.03, 0.02)]


def test_the_difference_has_students_interval() -> None:
    found = compare_means(PAIRS)
    assert found is not None and found.n_questions == 3
    assert (found.first, found.second, found.difference) == pytest.approx((0.1 / 3, 0.05 / 3, -0.05 / 3))
    # differences -0.01, -0.03 and -0.01: standard deviation 0.011547, over the root of 3; t with 2 degrees: 4.302653
    assert found.standard_error == pytest.approx(0.0066667, rel=1e-4)
    assert found.ci95 == pytest.approx((-0.0166667 - 4.302653 * 0.0066667, -0.0166667 + 4.302653 * 0.0066667), rel=1e-4)
    assert found.compute_interval(0.05) == found.ci95
    wide, ninety = found.compute_interval(0.01), found.compute_interval(0.1)
    assert wide and ninety and wide[0] < found.ci95[0] < ninety[0] < ninety[1] < found.ci95[1] < wide[1]  # type: ignore[index]


def test_one_sample_has_no_interval_and_none_no_means() -> None:
    assert compare_means([]) is None
    one = compare_means(PAIRS[:1])
    assert one is not None and one.compute_interval(0.05) is one.ci95 is one.standard_error is None
    assert one.to_dict() == {
        "n_questions": 1, "first": 0.02, "second": 0.01, "difference": -0.01, "ci95": None, "standard_error": None,
    }  # fmt: skip


def test_a_file_has_the_interval_as_a_list() -> None:
    found = compare_means(PAIRS)
    assert found is not None and found.ci95 is not None and found.to_dict()["ci95"] == list(found.ci95)
