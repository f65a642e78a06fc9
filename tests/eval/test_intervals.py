import math

import pytest

from eval.intervals import accuracy_interval


def wilson(k: int, n: int) -> tuple[float, float]:
    """Wilson 1927 written out, with the 97.5% quantile of the normal distribution."""
    z, p = 1.959963984540054, k / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return middle - half, middle + half


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 53), (20, 53), (53, 53), (83, 165), (5000, 10_000)])
def test_interval_agrees_with_the_formula_written_out(k: int, n: int) -> None:
    interval = accuracy_interval(k, n)
    assert interval is not None
    assert list(interval) == pytest.approx(wilson(k, n), abs=1e-12)


def test_no_questions_have_no_interval() -> None:
    assert accuracy_interval(0, 0) is None


def test_more_correct_than_questions_is_refused() -> None:
    with pytest.raises(ValueError):
        accuracy_interval(2, 1)
    with pytest.raises(ValueError):
        accuracy_interval(1, 0)
