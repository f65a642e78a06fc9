"""Every interval that is shown contains the truth: a small part of the table in docs/explanation/intervals.md."""

from itertools import product

import numpy as np
import pytest

from scripts.interval_coverage import (
    CORRELATIONS,
    EPOCHS,
    INTERVALS,
    SEVERAL_EPOCHS_ONLY,
    Cell,
    measure,
)

SLOW = {"difference in accuracy", "difference in graded score"}


@pytest.mark.parametrize("name", INTERVALS)
def test_about_95_of_100_intervals_contain_the_truth(name: str) -> None:
    cells = [
        Cell(n, epochs, correlation, 0.1, accuracy)
        for n, epochs, correlation, accuracy in product((20, 53), EPOCHS, CORRELATIONS, (0.35, 0.85))
        if epochs > 1 or name not in SEVERAL_EPOCHS_ONLY
    ]
    draws = 20 if name in SLOW else 60
    found = [measure(INTERVALS[name], cell, draws) for cell in cells]
    assert np.mean(found) >= 92.5  # one standard error: 1.4 for the slow ones, 0.8 for the others
