"""Words and numbers as the simulated model compares them."""

import pytest

from mas.simulation.solving.wording import (
    find_phrase,
    format_number,
    parse_number,
    read_decimals,
    replace_typographic,
    split_words,
    stem,
)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("pies", "pie"),
        ("flies", "fly"),
        ("ties", "tie"),
        ("gas", "gas"),
        ("bus", "bus"),
        ("cars", "car"),
        ("glass", "glass"),
        ("using", "using"),
        ("doing", "doing"),
        ("added", "added"),
        ("red", "red"),
        ("bed", "bed"),
        ("axed", "axed"),
        ("price", "pric"),
        ("ice", "ice"),
        ("tree", "tree"),
        ("trees", "tree"),
        ("ended", "ended"),
        ("rises", "rise"),
        ("s", "s"),
        ("es", "es"),
    ],
)
def test_endings_are_removed(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the unit_price of Widgets?", ["unit", "pric", "widget"]),
        ("camelCaseName", ["camel", "case"]),
        ("Give only the number", []),
        ("3 of 12 boxes", ["3", "12", "boxe"]),
        ("été", ["été"]),
    ],
)
def test_content_words_have_stems(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("$1,250.50", 1250.5),
        (" about 7 ", 7.0),
        ("12%", 12.0),
        (".5", 0.5),
        ("-3", -3.0),
        ("+4.0", 4.0),
        ("1.", None),
        ("1,2,3", 123.0),
        ("x7", None),
        ("7 km", None),
        ("", None),
        ("\u20ac 9", 9.0),
        ("$$$1", None),
    ],
)
def test_cells_are_numbers(cell: str, expected: float | None) -> None:
    assert parse_number(cell) == expected


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("Rome", "to Rome", 3),
        ("rome", "Rome it is", 0),
        ("rom", "Rome", -1),
        ("a b", "x A B.", 2),
        ("a.b", "axb a.b", 4),
        ("x", "", -1),
    ],
)
def test_a_phrase_is_found_as_whole_words(phrase: str, text: str, expected: int) -> None:
    assert find_phrase(phrase, text) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("to 3 decimal places", 3),
        ("no decimals", 0),
        ("Six digits after the point", 6),
        ("two dp", 2),
        ("one digit after", 1),
        ("nearest whole number", 0),
        ("as an integer", 0),
        ("to the nearest tenth", 1),
        ("closest to a whole", 0),
        ("nearest hundred.", -2),
        ("nearest thousandth", 3),
        ("nearest cent", 2),
        ("nearest ten", -1),
        ("nearest tens", None),
        ("how many?", None),
    ],
)
def test_decimals_are_read_from_the_question(question: str, expected: int | None) -> None:
    assert read_decimals(question) == expected


@pytest.mark.parametrize(
    ("value", "decimals", "expected"),
    [
        (1.0, None, "1"),
        (0.30000000000000004, None, "0.3"),
        (1000000000000000.0, None, "1000000000000000"),
        (100000000000000.5, None, "1e+14"),
        (-1000000000000000.0, None, "-1000000000000000"),
        (2.5, 0, "3"),
        (0.125, 2, "0.13"),
        (-0.125, 2, "-0.13"),
        (-2.5, 0, "-3"),
        (1234.5, -2, "1200"),
        (1250.0, -2, "1300"),
        (7.0, 2, "7.00"),
        (0.0, 1, "0.0"),
    ],
)
def test_a_number_is_written_as_an_answer(value: float, decimals: int | None, expected: str) -> None:
    assert format_number(value, decimals) == expected


@pytest.mark.parametrize(
    ("word", "number"),
    [("no", 0), ("zero", 0), ("one", 1), ("two", 2), ("three", 3), ("four", 4), ("five", 5), ("six", 6), ("12", 12)],
)
def test_the_number_of_decimals_is_a_word_or_digits(word: str, number: int) -> None:
    assert read_decimals(f"Give it with {word} decimal places.") == number


@pytest.mark.parametrize(
    ("place", "decimals"),
    [("tenth", 1), ("hundredth", 2), ("cent", 2), ("thousandth", 3), ("ten", -1), ("hundred", -2), ("thousand", -3)],
)
def test_a_number_is_rounded_to_the_nearest_place_that_is_named(place: str, decimals: int) -> None:
    assert read_decimals(f"Round it to the nearest {place}.") == decimals


def test_typographic_marks_are_those_of_a_keyboard() -> None:
    assert replace_typographic("\u2018a\u2019 \u201cb\u201d `c` 2\u00d73\u00f74") == "'a' \"b\" 'c' 2*3/4"


def test_halves_are_rounded_away_from_zero_and_nothing_else_is() -> None:
    assert [format_number(value, 9) for value in (1e-10, -1e-10)] == ["0.000000001", "-0.000000001"]
    assert [format_number(value, 2) for value in (0.004, 0.005, 0.0149, -0.005)] == ["0.00", "0.01", "0.01", "-0.01"]
