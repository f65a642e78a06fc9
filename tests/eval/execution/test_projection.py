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


@pytest.mark.parametrize(
    ("progress", "is_telling"),
    [
        *((Progress(2, 40), False), (Progress(3, 40), True), (Progress(7, 40, 8), False), (Progress(8, 40, 8), True)),
        *(
            (Progress(4, 10, 8), False),
            (Progress(5, 10, 8), True),
            (Progress(5, 11, 8), True),
            (Progress(3, 5, 8), True),
        ),
    ],
)
def test_as_many_answers_as_run_at_once_or_half_of_them_tell_enough(progress: Progress, is_telling: bool) -> None:
    assert progress.is_telling is is_telling
    assert (project(progress, 1.0, 1.0) != UNKNOWN) is is_telling


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((29, "29 s"), (30.6, "31 s"), (89.9, "90 s"), (91, "2 min"), (149, "2 min"), (151, "3 min")),
        *((3_569, "59 min"), (3_571, "1 h"), (3_660, "1 h 1 min"), (7_200, "2 h"), (3_600 * 47, "47 h")),
        *(
            (3_600 * 48 - 60, "47 h 59 min"),
            (3_600 * 49, "2 d 1 h"),
            (3_600 * 72, "3 d"),
            (3_600 * 71 + 3_540, "2 d 23 h"),
        ),
    ],
)
def test_a_duration_is_rounded_to_its_smaller_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("usd", "text"), [(0.1, "$0.10"), (0.0999, "$0.0999"), (1000.0, "$1,000.00")])
def test_small_amounts_have_four_digits(usd: float, text: str) -> None:
    assert format_projection(Projection(30.0, usd)) == f"about 30 s left, about {text} in all"
