"""Every interval that is shown contains the truth: a small part of the table in docs/explanation/intervals.md."""

from itertools import product

import numpy as np
import pytest

from scripts.interval_coverage import (
    BEGIN,
    CORNERS,
    CORRELATIONS,
    END,
    EPOCHS,
    INTERVALS,
    PAGE,
    SEVERAL_EPOCHS_ONLY,
    SIZES,
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


BELOW_THE_GOAL = {
    "accuracy, and by level and tag | 20 | 1",
    "accuracy, and by level and tag | 20 | 5",
    "pass@2 | 20 | 5",
    "pass^2 | 20 | 5",
    "graded score, 5 % fail",
    "graded difference, 3 % lose everything",
    "cost halved, long tail",
}  # the page says why


def test_the_page_has_all_intervals_and_no_other_misses_the_goal() -> None:
    table = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [line.removeprefix("| ") for line in table.splitlines()]
    several = {name: EPOCHS[1:] if name in SEVERAL_EPOCHS_ONLY else EPOCHS for name in INTERVALS}
    for name in (f"{name} | {n} | {k}" for name, epochs in several.items() for n in SIZES for k in epochs):
        assert sum(row.startswith(f"{name} | ") for row in rows) == 1
    assert all(any(row.startswith(f"{name} | ") for row in rows) for name in CORNERS)
    bold = [row for row in rows if "**" in row]
    assert {name for name in BELOW_THE_GOAL if any(row.startswith(f"{name} | ") for row in bold)} == BELOW_THE_GOAL
    assert len(bold) == len(BELOW_THE_GOAL)
