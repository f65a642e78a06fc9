"""Time left and cost are projected from the answers so far, and from too few of them nothing is."""

import pytest

from eval.execution.projection import Progress, format_duration, format_projection, project


@pytest.mark.parametrize(
    ("progress", "seconds", "usd", "text"),
    [
        (Progress(12, 66, 4), 48.0, 0.036, "about 4 min left, about $0.20 in all"),
        (Progress(10, 40), 60.0, None, "about 3 min left"),
        (Progress(5, 10, 16), 30.0, 0.0, "about 30 s left"),  # half of the answers are enough if all run at once
        # As many answers as run at once are under way when the first ones, the short ones, are finished.
        *(
            (each, 10.0, 0.5, "")
            for each in (Progress(0, 66), Progress(2, 66), Progress(15, 66, 16), Progress(4, 10, 16))
        ),
        (Progress(3, 3), 9.0, 0.2, ""),
    ],
)
def test_an_estimate_is_made_from_enough_answers(
    progress: Progress, seconds: float, usd: float | None, text: str
) -> None:
    assert format_projection(project(progress, seconds, usd)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3_599, "1 h"), (12_000, "3 h 20 min"), (3_600 * 48, "2 d")],
)
def test_a_duration_has_two_units_or_fewer(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
