"""What is said of the expected answer is its kind, and of the given one how it differs in kind."""

import pytest

from optimize.feedback.expectation import Expectation, classify_answer

TWO_DECIMALS = "How much is it? Answer with the number alone, rounded to two decimal places."
COUNT = "How many are there? Give only the number."
LIST = "Which are they? Give the names in alphabetical order, separated by commas."


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("17", "number"),
        ("1,234.5 km", "number"),
        ("$ 5", "number"),
        ("March 4, 2010", "date"),
        ("4 March 2010", "date"),
        ("2010-03-04", "date"),
        ("04/03/10", "date"),
        ("Yes", "decision"),
        ("Boworn, Fikesn", "list"),
        ("a; b", "list"),
        ("Mary", "word"),
        ("Marble", "word"),
        ("Alice Walker", "words"),
        ("it was a dark and stormy night", "text"),
    ],
)
def test_kinds_of_answers(target: str, kind: str) -> None:
    assert classify_answer(target) == kind


@pytest.mark.parametrize(
    ("target", "question", "sentence"),
    [
        ("88450.42", TWO_DECIMALS, "Expected was a number with two decimals, without a unit."),
        ("8.5", TWO_DECIMALS, "Expected was a number with two decimals, without a unit."),
        ("88450.42", "How much is it?", "Expected was a decimal number, without a unit."),
        ("12", "How much, to the nearest integer?", "Expected was a whole number, without a unit."),
        ("12 km", COUNT, "Expected was a whole number, with its unit."),
        ("a, b, c", "Name them.", "Expected was a list of three items, separated by commas."),
        (
            "Boworn, Fikesn",
            LIST,
            "Expected was a list of two items, in the order that the question asks for, separated by commas.",
        ),
        ("stove", "Behind what?", "Expected was a single word or name, with nothing around it."),
    ],
)
def test_the_expectation_in_words(target: str, question: str, sentence: str) -> None:
    assert Expectation.of(target, question).wordings[0] == sentence


@pytest.mark.parametrize(
    ("target", "question", "answer", "words"),
    [
        ("17", COUNT, None, ["no answer"]),
        ("17", COUNT, " ", ["no answer"]),
        ("17", COUNT, "17 crowns", ["unit"]),
        ("17", COUNT, "The sum is 17.", ["Prose"]),
        ("17", COUNT, "seventeen", ["Words"]),
        ("17", COUNT, "12 + 5 = 17", ["several numbers"]),
        ("4520", COUNT, "4,520", ["thousands separators"]),
        ("4520", COUNT, "4 520", ["thousands separators"]),
        ("8.50", TWO_DECIMALS, "8.4987", ["rounding"]),
        ("88.46", TWO_DECIMALS, "88.5", ["rounding"]),
        ("12 km", COUNT, "12", ["unit was missing"]),
        ("a, b", LIST, "a", ["number of items"]),
        ("Boworn, Fikesn", LIST, "Boworn and Fikesn", ["separators"]),
        ("Boworn, Fikesn", LIST, "Fikesn, Boworn", ["list order"]),
        ("stove", "Behind what?", "The key hangs behind the stove.", ["Prose"]),
        ("stove", "Behind what?", "640", ["number"]),
        ("stove", "Behind what?", "stove, piano", ["list"]),
        ("stove", "Behind what?", "**stove**", ["markup"]),
        ("2010-03-04", "When?", "in spring", ["not a date"]),
        ("Yes", "Is it?", "Perhaps", ["not a plain decision"]),
    ],
)
def test_differences_in_kind(target: str, question: str, answer: str | None, words: list[str]) -> None:
    faults = Expectation.of(target, question).find_faults(answer)

    assert len(faults) == len(words), faults
    for word, fault in zip(words, faults, strict=True):
        assert word in fault[0]


@pytest.mark.parametrize("answers", [("18", "1700"), ("16.9", "-17"), ("9999", "1")])
def test_nothing_is_said_of_how_far_off_a_value_is_or_on_which_side(answers: tuple[str, str]) -> None:
    near, far = (Expectation.of("17", "How many?").find_faults(answer) for answer in answers)

    assert near == far == []


def test_another_value_in_the_right_form_has_no_fault_in_kind() -> None:
    assert Expectation.of("Boworn, Fikesn", LIST).find_faults("Drazeth, Moveln") == []
    assert Expectation.of("stove", "Behind what?").find_faults("piano") == []
