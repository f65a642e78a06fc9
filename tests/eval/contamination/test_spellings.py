"""Numbers in words and with their digits apart, and the forms that a word's plural or singular adds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.contamination.spellings import derive_spellings, find_spelt_numbers, inflect, parse_cardinal
from eval.contamination.text import Reading


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("one or two", ["1", "2"]),
        ("two hundred and", ["200"]),
        ("two hundred and five", ["205"]),
        ("one and two", ["1", "2"]),
        ("a thousand two hundred and five", ["1205"]),
        ("a million, not thousands", ["1000000"]),
        ("hundred", []),
        ("nineteen oh five", ["1905"]),
        ("eighteen seventy-four", ["1874"]),
        ("seven two", ["72"]),
        ("twenty one two", []),
        ("zero", ["0"]),
        ("fifty-nine point six two", ["59", "59.62", "62"]),
        ("point five", ["5"]),
        ("three point", ["3"]),
        ("4-8-1-2", ["4812"]),
        ("4 812.5", ["4812.5"]),
        ("2024-05-12", ["20240512"]),
        ("1.2.3", ["123"]),
        ("1.2", []),
        ("10, 20 30", ["2030"]),
        ("a4-8", []),
        ("4-8x", []),
        ("4o1l2", ["40112"]),
        ("100l", []),
        ("1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6", []),
    ],
)
def test_numbers_are_read_in_other_spellings(text: str, numbers: list[str]) -> None:
    assert [each.text for each in find_spelt_numbers(Reading(text))] == numbers


def test_the_place_of_a_number_is_that_of_all_its_words() -> None:
    reading = Reading("It was a hundred and five point two.")
    assert [reading.text[each.start : each.end] for each in find_spelt_numbers(reading)] == [
        "a hundred and five",
        "a hundred and five point two",
        "two",
    ]


def spell(number: int) -> str:
    """English, written without any code of the package."""
    units = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    names = [*units.split(), "seventeen", "eighteen", "nineteen"]
    tens = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
    for size, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = f" {spell(number % size)}" if number % size else ""
            return f"{spell(number // size)} {name}{' and' if rest and number % size < 100 else ''}{rest}"
    if number < 20:
        return names[number]
    return tens[number // 10] + (f" {names[number % 10]}" if number % 10 else "")


@given(st.integers(0, 999_999_999))
def test_every_number_is_understood_in_words(number: int) -> None:
    assert parse_cardinal(spell(number).split()) == number
    assert str(number) in [each.text for each in find_spelt_numbers(Reading(f"say {spell(number)} now"))]


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("lantern", ["lanterns"]),
        ("lanterns", ["lantern"]),
        ("berry", ["berries"]),
        ("berries", ["berry", "berrie"]),
        ("boxes", ["box", "boxe"]),
        ("church", ["churches"]),
        ("glass", ["glasses"]),
        ("women", ["woman"]),
        ("tooth", ["teeth"]),
        ("display", ["displays"]),
        ("cat", []),
        ("x1234", []),
    ],
)
def test_a_word_has_a_plural_or_a_singular(word: str, others: list[str]) -> None:
    assert list(inflect(word)) == others


def test_the_spellings_of_a_target_are_its_forms_and_more() -> None:
    def derive(target: str) -> set[tuple[str, str, bool]]:
        return {(form.how, form.text, form.weak) for form in derive_spellings(target)}

    assert derive("forty-two") >= {("word", "fortytwo", False), ("number", "42", True)}
    assert derive("the brass lantern") >= {("word", "brasslantern", False), ("word", "brasslanterns", False)}
    assert derive("owls, Marabel") >= {("word", "owl", True), ("word", "marabels", False)}
    assert {how for how, _, _ in derive("1,234")} == {"number"}
    assert derive("files") >= {("word", "file", True)}
