"""Time left and cost are projected from the answers so far, and from too few of them nothing is."""

import pytest

from eval.execution.projection import (
    UNKNOWN,
    Progress,
    Projection,
    format_duration,
    format_projection,
    project,
)


def test_the_remaining_answers_are_taken_to_be_like_those_so_far() -> None:
    assert project(Progress(12, 66, 4), 48.0, 0.25) == Projection(216.0, 1.375)


@pytest.mark.parametrize("progress", [Progress(0, 66), Progress(2, 66), Progress(15, 66, 16), Progress(4, 10, 16)])
def test_nothing_is_known_from_the_first_answers(progress: Progress) -> None:
    """As many answers as run at once are under way when the first ones, the short ones, are finished."""
    assert project(progress, 10.0, 0.5) == UNKNOWN
    assert format_projection(UNKNOWN) == ""


def test_half_of_the_answers_are_enough_where_all_run_at_once() -> None:
    assert project(Progress(5, 10, 16), 10.0, 1.0) == Projection(10.0, 2.0)


def test_a_run_at_its_end_has_no_time_left_and_the_cost_that_it_had() -> None:
    assert project(Progress(3, 3), 9.0, 0.2) == Projection(0.0, 0.2)
    assert project(Progress(0, 0), 0.0, 0.0) == Projection(0.0, 0.0)
    assert format_projection(Projection(0.0, 0.2)) == ""


def test_an_unknown_price_leaves_the_cost_unknown_and_the_time_known() -> None:
    projected = project(Progress(10, 40), 60.0, None)
    assert projected == Projection(180.0, None)
    assert format_projection(projected) == "about 3 min left"


@pytest.mark.parametrize(
    ("projected", "text"),
    [
        (Projection(216.0, 0.165), "about 4 min left, about $0.17 in all"),
        (Projection(30.4, 0.0123), "about 30 s left, about $0.0123 in all"),
        (Projection(30.4, 0.0), "about 30 s left"),
        (Projection(12_000.0, 1234.5), "about 3 h 20 min left, about $1,234.50 in all"),
    ],
)
def test_each_estimate_says_that_it_is_one(projected: Projection, text: str) -> None:
    assert format_projection(projected) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3_599, "1 h"),
        (3_600 * 48, "2 d"),
        (3_600 * 53, "2 d 5 h"),
    ],
)
def test_a_duration_has_two_units_or_fewer(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
