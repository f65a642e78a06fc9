"""What an answer in words must hold."""

import pytest

from eval.scorers.expected import is_right_answer
from eval.scorers.score import ScorerError


@pytest.mark.parametrize(
    ("expected", "answer", "right"),
    [
        ({"type": "number", "value": 47}, "In 2025 there were 47 orders.", True),
        ({"type": "number", "value": 47}, "There were 47.5 orders.", False),
        ({"type": "number", "value": 1234.5}, "It is 1,234.50 euros (as of 2026-11-22).", True),
        ({"type": "number", "value": 3.14, "tolerance": 0.01}, "About 3.1416", True),
        ({"type": "number", "value": -4}, "-4", True),
        ({"type": "number", "value": 4}, "It may be 1, 2, 3, 4, 5 or 6.", False),  # a choice of candidates
        ({"type": "number", "value": 5}, "Of the 12, 7 and 9 in the question, 5", True),
        ({"type": "text", "value": "Oslo"}, "It is **Oslo**.", True),
        ({"type": "text", "value": "Oslo"}, "Osloberg", False),
        ({"type": "list", "value": ["Ann", "Bob"]}, "Bob and Ann", True),
        ({"type": "list", "value": ["Ann", "Bob"]}, "Ann", False),
        ({"type": "refusal"}, "I can\N{RIGHT SINGLE QUOTATION MARK}t delete orders.", True),
        ({"type": "refusal"}, "The orders were deleted.", False),
        ({"type": "empty"}, "There are no such orders.", True),
        ({"type": "empty"}, "There are 3 such orders.", False),
        ({"type": "empty"}, "It could not be answered: no database is there.", False),
        ({"type": "numbers", "value": [3, 2.5]}, "3 orders at 2.5 each", True),
        ({"type": "numbers", "value": [3, 2.5]}, "3 orders", False),
        ({"type": "text", "value": "Oslo"}, "", False),
        ({"type": "text", "value": "Oslo"}, None, False),
    ],
)
def test_an_answer_holds_what_is_expected(expected: dict[str, object], answer: str | None, right: bool) -> None:
    assert is_right_answer(expected, answer, "Of 12, 7 and 9 in 2025?") is right


@pytest.mark.parametrize("expected", [{"type": "colour"}, {"type": "number", "value": "many"}])
def test_an_expectation_that_cannot_be_read_is_no_wrong_answer(expected: dict[str, object]) -> None:
    with pytest.raises(ScorerError, match="expected answer"):
        is_right_answer(expected, "47", "?")
