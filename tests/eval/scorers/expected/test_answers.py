"""What an answer in words must hold."""

import pytest

from eval.scorers.expected.answers import is_right_answer
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
        ({"type": "text", "value": "Oslo", "not": ["Bergen"]}, "Oslo or Bergen", False),
        ({"type": "list", "value": ["Ann", "Bob"]}, "Bob and Ann", True),
        ({"type": "list", "value": ["Ann", "Bob"], "ordered": True}, "Bob and Ann", False),
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


@pytest.mark.parametrize(
    ("expected", "answer", "right"),
    [
        ({"value": "Oslo"}, "It is oslo.", True),  # a text, if nothing else is said
        ({"type": "number", "value": 4}, "It may be 1, 2, 3 or 4.", True),  # three others are allowed
        ({"type": "number", "value": 4}, "It may be 1, 2, 3, 4 or 6.", False),
        ({"type": "number", "value": 4}, "Of 12, 7, 9, 1, 2 and 3 it is 4.", True),
        ({"type": "number", "value": 2, "tolerance": 0.5}, "2.5", True),
        ({"type": "number", "value": 2, "tolerance": 0.5}, "1.5", True),
        ({"type": "number", "value": 2, "tolerance": 0.5}, "2.51", False),
        ({"type": "number", "value": 0}, "0.000000001", True),
        ({"type": "number", "value": 0}, "0.000000002", False),
        ({"type": "number", "value": "1234"}, "1,234", True),
        ({"type": "number", "value": 2026}, "On 2026-11-22", False),
        ({"type": "number", "value": 5}, "At 2026-11-22T10:05:05 there were 5.", True),
        ({"type": "numbers", "value": [1, 2]}, "1, 2, 3, 4, 5", True),
        ({"type": "numbers", "value": [1, 2]}, "1, 2, 3, 4, 5, 6", False),
        ({"type": "numbers", "value": [2, 1]}, "1 and 2", True),
        ({"type": "list", "value": ["Ann", "Bob"], "ordered": True}, "ANN, then bob", True),
        ({"type": "list", "value": ["Ann", "Bob"], "ordered": False}, "Bob, Ann", True),
        ({"type": "list", "value": []}, "Ann", True),
        ({"type": "text", "value": "Oslo", "not": ["Oslo"]}, "Oslo", False),
        ({"type": "text", "value": "Oslo", "not": "Oslo"}, "Oslo", True),
        ({"type": "refusal", "not": ["deleted"]}, "It could not be deleted.", False),
        ({"type": "empty"}, "There may not be any, and I was not able to look.", False),
        ({"type": "text", "value": "12"}, "\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT TWO}", True),
        ({"type": "text", "value": "x"}, "  ", False),
    ],
)
def test_limits_belong_to_what_is_allowed(expected: dict[str, object], answer: str, right: bool) -> None:
    assert is_right_answer(expected, answer, "Of 12, 7 and 9 in 2025?") is right


def test_an_expectation_that_cannot_be_read_is_named() -> None:
    types = "number, numbers, text, list, refusal, empty"
    with pytest.raises(ScorerError, match=f"^the expected answer has the type 'colour'; choose one of: {types}$"):
        is_right_answer({"type": "colour"}, "47", "?")
    with pytest.raises(
        ScorerError, match=r"^the expected answer is of the type number and has no number as its value$"
    ):
        is_right_answer({"type": "number", "value": 1, "tolerance": "wide"}, "47", "?")
