"""Sums, conversions and puzzles read out of question text."""

import pytest

from mas.simulation.solving.self_contained import evaluate_expression, round_result, solve
from mas.simulation.solving.wording import format_number, parse_number, read_decimals


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is 15% of 80?", 12),
        ("What percentage of 80 is 20?", 25),
        ("By what percent does it increase from 50 to 60?", 20),
        ("What is 12 times 34 plus 5?", 413),
        ("What is (3 + 4) * 2?", 14),
        ("What is 2 to the power of 10?", 1024),
        ("What is the remainder when 17 is divided by 5?", 2),
        ("What is 1,200 divided by 8?", 150),
        ("A barn holds 1000 sacks. 10 percent are sold, then 50 percent of the rest. How many are left?", 450),
    ],
)
def test_a_sum_in_words_becomes_an_expression(question: str, value: float) -> None:
    found = solve(question)

    assert found is not None
    assert evaluate_expression(found.expression or "") == pytest.approx(value)


@pytest.mark.parametrize(
    ("question", "conversion"),
    [
        ("Convert 5 kilograms to pounds. Round to two decimal places.", ("5 kilograms", "pounds")),
        ("How many miles are 10 km?", ("10 km", "miles")),
        ("Express 140.1 feet in metres, rounded to one decimal.", ("140.1 feet", "metres")),
        ("Convert 98.6 degrees Fahrenheit to degrees Celsius.", ("98.6 fahrenheit", "celsius")),
    ],
)
def test_a_conversion_is_read_with_its_units(question: str, conversion: tuple[str, str]) -> None:
    found = solve(question)

    assert found is not None
    assert found.conversion == conversion


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Write the word `lantern` backwards.", "nretnal"),
        ("Reverse the word harbour.", "ruobrah"),
        ('How many times does the letter "r" appear in the word "strawberry"?', "3"),
        ("How often does the letter g occur in this line: `egg and gold`? Give only the number.", "3"),
        ("How many letters has the word “harbour”?", "7"),
    ],
)
def test_a_puzzle_is_solved_at_once(question: str, answer: str) -> None:
    found = solve(question)

    assert found is not None
    assert found.answer == answer


def test_a_question_of_another_kind_is_left_alone() -> None:
    assert solve("Who wrote the letter?") is None


@pytest.mark.parametrize(
    ("text", "decimals"),
    [
        ("rounded to two decimals", 2),
        ("with 3 decimal places", 3),
        ("to the nearest integer", 0),
        ("to the nearest tenth", 1),
        ("to the nearest hundred", -2),
        ("just the number", None),
    ],
)
def test_rounding_is_read_from_the_question(text: str, decimals: int | None) -> None:
    assert read_decimals(text) == decimals


@pytest.mark.parametrize(
    ("text", "decimals", "answer"),
    [("1069.2427 pound", 2, "1069.24"), ("42.7", 2, "42.70"), ("1974 foot", -2, "2000"), ("no number", 2, "no number")],
)
def test_a_tools_result_is_rounded(text: str, decimals: int, answer: str) -> None:
    assert round_result(text, decimals) == answer


@pytest.mark.parametrize("expression", ["1 / 0", "import os", "unknown + 1", "2 +"])
def test_what_cannot_be_reckoned_is_no_number(expression: str) -> None:
    assert evaluate_expression(expression) is None


@pytest.mark.parametrize(("cell", "value"), [("$1,250.50", 1250.5), ("12%", 12), ("-3", -3), ("A12", None), ("", None)])
def test_a_cell_is_a_number_or_not(cell: str, value: float | None) -> None:
    assert parse_number(cell) == value


def test_a_number_is_written_without_needless_digits() -> None:
    assert format_number(0.1 + 0.2, None) == "0.3"


LISTED = "the {} of four words, in this order: lantern, harbour, anchor, mast."


@pytest.mark.parametrize(
    ("place", "word"),
    [("first", "lantern"), ("second", "harbour"), ("third", "anchor"), ("fourth", "mast"), ("last", "mast")],
)
def test_an_instruction_written_backwards_picks_a_listed_word(place: str, word: str) -> None:
    question = f"The following is written backwards, read it and do as it says. {LISTED.format(place)[::-1]}"
    found = solve(question)
    assert found is not None and (found.answer, found.why) == (word, "Counted letter by letter.")


@pytest.mark.parametrize("text", ["the third of two words: lantern, harbour", "write down any word"])
def test_an_instruction_written_backwards_that_names_no_word_has_no_answer(text: str) -> None:
    assert solve(f"This is written backwards, read it. {text[::-1]}") is None


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("'Take care': reverse the word 'lantern'.", "nretnal"),
        ("How often does the letter 'l' occur in the words 'ball' and 'lull'?", "3"),
        ("How often does the letter 'o' occur in the word 'oo'?", "2"),
        ("How often does the letter e occur in the word tree", "2"),
        ("How many letters has 'a 1 lamp', not 'it'?", "2"),
        ("How many letters are in the word barge or the word mast?", "4"),
        ("How often does the letter e occur in 1e7?", None),
        ("How many letters did Ada write?", None),
        ("Which word has letters?", None),
        ("The number 'four' is said of which word?", None),
    ],
)
def test_a_puzzle_is_about_the_last_word_that_it_names(question: str, answer: str | None) -> None:
    found = solve(question)
    assert (found and found.answer) == answer


@pytest.mark.parametrize(
    ("question", "conversion"),
    [
        ("A pole is 12 metres long; give its length in feet, converted exactly.", ("12 metres", "feet")),
        ("A pole is 12 metres long and stands in water.", None),
        ("How long is 12 metres in feet?", ("12 metres", "feet")),
        ("Convert $1,200 Kg to Ounces.", ("1200 Kg", "ounces")),
        ("Convert 5 kWh to Joule.", ("5 kWh", "joule")),
        ("Convert 5 KWHR to JOU.", ("5 kwhr", "JOU")),
    ],
)
def test_short_units_keep_their_case_and_amounts_lose_their_commas(
    question: str, conversion: tuple[str, str] | None
) -> None:
    found = solve(question)
    assert (found and found.conversion) == conversion


BOXES = "There are 4 shelves with 3 boxes each, and 20 nails in every box."


@pytest.mark.parametrize(
    ("question", "expression"),
    [
        (BOXES, "4 * 3 * 20"),
        (f"{BOXES} 7 nails are bent and 2 nails are lost.", "4 * 3 * 20 - 7 - 2"),
        ("A barn holds 1,000 sacks, of which 10 percent are sold. How many are left?", "1000 * (1 - 10 / 100)"),
        ("First 2 + 2, then 34 * 5 + 6?", "34 * 5 + 6"),
        ("Call 555-1234 or add 3+4.", "3+4"),
        ("Call 555-1234.", None),
        ("Take (12).", None),
    ],
)
def test_the_longest_sum_is_worked_out_and_numbers_of_other_kinds_are_none(
    question: str, expression: str | None
) -> None:
    found = solve(question)
    assert (found and found.expression) == expression
