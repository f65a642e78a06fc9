"""What is said of the expected answer is its kind, and of the given one how it differs in kind."""

import pytest

from optimize.feedback.feedback import Expectation, classify_answer

TWO_DECIMALS = "How much is it? Answer with the number alone, rounded to two decimal places."
COUNT = "How many are there? Give only the number."
LIST = "Which are they? Give the names in alphabetical order, separated by commas."


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("17", "number"),
        ("1,234.5 km", "number"),
        ("March 4, 2010", "date"),
        ("2010-03-04", "date"),
        ("04/03/10", "date"),
        ("Yes", "decision"),
        ("Boworn, Fikesn", "list"),
        ("a; b", "list"),
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
    assert Expectation.of(target, question).describe() == sentence


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
        ("8.50", TWO_DECIMALS, "8.4987", ["rounding"]),
        ("88.46", TWO_DECIMALS, "88.5", ["rounding"]),
        ("12 km", COUNT, "12", ["unit was missing"]),
        ("a, b", LIST, "a", ["number of items"]),
        ("Boworn, Fikesn", LIST, "Boworn and Fikesn", ["separators"]),
        ("Boworn, Fikesn", LIST, "Fikesn, Boworn", ["list order"]),
        ("stove", "Behind what?", "The key hangs behind the stove.", ["Prose"]),
        ("stove", "Behind what?", "640", ["number"]),
        ("stove", "Behind what?", "**stove**", ["markup"]),
        ("1,234", COUNT, "1,234", []),
        ("3.14", TWO_DECIMALS, "3.141", ["another number of decimals than asked for"]),
        ("a and b, c", LIST, "a and b, c", []),
        ("a, b", LIST, "a\nb", ["line breaks"]),
        ("a, b", LIST, "a, one two three four", []),
        ("a, b", LIST, "a, one two three four five", ["Prose"]),
        ("Mary", "Who?", "it is Mary", []),
        ("Mary Ann", "Who?", "Mary Ann Lee", []),
        ("it was a dark and stormy night", "What?", "5", []),
        ("Yes", "Is it?", "No", []),
        ("Boworn, Fikesn", LIST, "Drazeth, Moveln", []),
        ("stove", "Behind what?", "piano", []),
    ],
)
def test_differences_in_kind(target: str, question: str, answer: str | None, words: list[str]) -> None:
    faults = Expectation.of(target, question).find_faults(answer)

    assert len(faults) == len(words), faults
    for word, fault in zip(words, faults, strict=True):
        assert word in fault


@pytest.mark.parametrize(
    ("question", "decimals"),
    [
        ("rounded to 3 decimal places", 3),
        ("to one decimal place", 1),
        ("to two-decimal precision", 2),
        ("in some decimals", None),
        ("to the nearest tenth", 1),
        ("to the Nearest thousandth", 3),
        ("How much?", None),
    ],
)
def test_the_decimals_that_a_question_asks_for(question: str, decimals: int | None) -> None:
    assert Expectation.of("1.5", question).decimals_asked == decimals


@pytest.mark.parametrize("answers", [("18", "1700"), ("16.9", "-17"), ("9999", "1")])
def test_nothing_is_said_of_how_far_off_a_value_is_or_on_which_side(answers: tuple[str, str]) -> None:
    near, far = (Expectation.of("17", "How many?").find_faults(answer) for answer in answers)

    assert near == far == []
