"""Mistakes that a careless agent makes: the same for the same question, plausible, and wrong."""

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
