"""Mistakes that a careless agent makes: the same for the same question, plausible, and wrong."""

import hashlib

import pytest

from mas.simulation.skills.mistakes import (
    UNKNOWN,
    calculate_exactly,
    calculate_mentally,
    invent_value,
    miscount,
    round_numbers,
)
from mas.simulation.solving.self_contained import Finding


def test_an_invented_value_is_of_the_right_kind_and_always_the_same() -> None:
    number, name, names = map(invent_value, ("How many boats?", "Which harbour?", "List the names of the harbours."))
    assert 100 <= int(number) < 9_100 and invent_value("How many boats?") == number != invent_value("How many oars?")
    assert name.isalpha() and name.istitle() and len(name) == 6
    assert names.split(", ") == sorted(names.split(", ")) and len(names.split(", ")) == 3


@pytest.mark.parametrize(
    ("text", "rounded"),
    [
        ("Pen | 8841", "Pen | about 8800"),
        ("8,841.75 t", "about 8800 t"),
        ("123", "about 120"),
        ("12 and 99", "12 and 99"),
        ("1987-12 x123 1.234", "1987-12 x123 1.234"),
        ("123456", "about 120000"),
    ],
)
def test_long_numbers_are_rounded_to_two_digits(text: str, rounded: str) -> None:
    assert round_numbers(text) == rounded


@pytest.mark.parametrize(
    ("finding", "careless", "exact"),
    [
        (Finding(expression="17 * 23"), "401", "391"),
        (Finding(expression="17 + 12"), "29", "29"),  # two small numbers
        (Finding(expression="17 + 30"), "48", "47"),
        (Finding(expression="1 + 2 + 3"), "8", "6"),
        (Finding(expression="4000 - 100"), "4000", "3900"),
        (Finding(answer="Rome"), "Rome", "Rome"),
        (Finding(), UNKNOWN, UNKNOWN),
        (Finding(expression="10 / 4", decimals=1), "4.5", "2.5"),
        (Finding(conversion=("50 degrees fahrenheit", "degrees celsius"), decimals=1), "10.0", UNKNOWN),
        (Finding(conversion=("10 degrees celsius", "degrees fahrenheit"), decimals=1), "50.0", UNKNOWN),
        (Finding(conversion=("10 miles", "kilometres"), decimals=1), "16.0", UNKNOWN),
        (Finding(conversion=("16 kilometres", "miles"), decimals=1), "10.0", UNKNOWN),
        (Finding(conversion=("10 miles", "crowns"), decimals=1), UNKNOWN, UNKNOWN),
    ],
)
def test_mental_arithmetic_is_off_where_it_is_hard(finding: Finding, careless: str, exact: str) -> None:
    assert (calculate_mentally(finding), calculate_exactly(finding)) == (careless, exact)


@pytest.mark.parametrize(("value", "wrong"), [("17", "18"), ("2.5", "3.5"), ("Rome", "oRme"), ("R", "R"), ("", "")])
def test_a_slip_changes_one_thing(value: str, wrong: str) -> None:
    assert miscount(value) == wrong


@pytest.mark.parametrize(
    ("question", "value"),
    [("How many boats?", True), ("What is the total?", True), ("Convert it.", True), ("Who won?", False)],
)
def test_the_invented_value_of_a_question_is_a_number_or_a_name(question: str, value: bool) -> None:
    assert invent_value(question).isdigit() is value


def test_an_invented_value_is_made_of_the_questions_digest() -> None:
    digest = hashlib.blake2b(b"made up\nHow many boats?", digest_size=8).digest()
    assert invent_value("How many boats?") == str(int.from_bytes(digest[:2], "big") % 9000 + 100)
    parts = ["bel", "dor", "fen", "gal", "hol", "kar", "lin", "mar", "nor", "pol", "ras", "sel", "tor", "vin"]
    for question, places in (("Which harbour?", (0,)), ("List them.", (0, 2, 4))):
        digest = hashlib.blake2b(f"made up\n{question}".encode(), digest_size=8).digest()
        names = sorted((parts[digest[at] % 14] + parts[digest[at + 1] % 14]).title() for at in places)
        assert invent_value(question) == ", ".join(names)


@pytest.mark.parametrize(
    ("text", "rounded"),
    [
        ("100", "about 100"),
        ("1 250", "1 about 250"),
        ("155", "about 160"),
        ("1,049", "about 1000"),
        ("999", "about 1000"),
    ],
)
def test_numbers_of_three_digits_are_rounded_to_tens(text: str, rounded: str) -> None:
    assert round_numbers(text) == rounded


@pytest.mark.parametrize(
    ("expression", "careless"),
    [
        ("29 + 0", "29"), ("1 + 29", "30"), ("1 + 30", "32"), ("3 - 1", "2"), ("1 + 1 + 1", "5"), ("2 * 3", "8"),
        ("3 * 3", "11"), ("4 * 3", "13"), ("5 * 20", "110"), ("9 * 11", "100"), ("50 * 20", "1100"), ("0 - 40", "-39"),
        ("0 * 4", "2"),
    ],
)  # fmt: skip
def test_a_mental_sum_is_off_in_proportion_to_its_size(expression: str, careless: str) -> None:
    assert calculate_mentally(Finding(expression=expression)) == careless


@pytest.mark.parametrize(
    ("quantity", "unit", "value"),
    [
        ("50 degF", "degC", "10.00"), ("10 degC", "degF", "50.00"), ("10 kilograms", "pounds", "22.00"),
        ("22 pounds", "kilograms", "10.00"), ("10 feet", "metres", "3.00"), ("1 foot", "metre", "0.30"),
        ("3 metres", "feet", "10.00"), ("4 litres", "gallons", "1.00"), ("1 gallon", "litres", "4.00"),
        ("2 inches", "centimetres", "5.00"), ("5 centimetres", "inches", "2.00"), ("10 knots", "kilometres", "18.00"),
        ("2 stones", "pounds", "unknown"), ("10 MILES", "KILOMETRES", "16.00"),
    ],
)  # fmt: skip
def test_units_are_converted_by_rough_factors(quantity: str, unit: str, value: str) -> None:
    assert calculate_mentally(Finding(conversion=(quantity, unit), decimals=2)) == value


def test_an_expression_that_has_no_value_leaves_the_answer() -> None:
    assert calculate_mentally(Finding(expression="1 / 0")) == calculate_exactly(Finding(expression="1 / 0")) == UNKNOWN
    assert calculate_mentally(Finding(answer="Rome", expression="1 / 0")) == "Rome"
    assert miscount("ab") == "ba"
