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


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("", None), ("a", None), ("and", None), ("hundred", None), ("thousand", None), ("oh", None), ("zero", 0),
        ("zero five", None), ("five zero", None), ("a hundred", 100), ("a hundred and five", 105), ("one a", None),
        ("ninety nine hundred", 9900), ("one hundred hundred", None), ("one hundred and", 100), ("and one", None),
        ("one and two", None), ("nine hundred ninety nine thousand", 999_000), ("ten hundred thousand", None),
        ("one thousand thousand", None), ("three thousand two million", None), ("one million thousand", None),
        ("two million three thousand four", 2_003_004), ("two thousand and four", 2004), ("twenty one", 21),
        ("nine hundred ninety nine billion", 999_000_000_000), ("one hundred one", 101), ("one hundred ten", 110),
        ("twenty ten", None), ("twenty nineteen", None), ("ten one", None), ("twenty twenty", None),
        ("one hundred twenty", 120), ("one hundred and eleven", 111), ("eleven eleven", None), ("ninety nine", 99),
    ],
)  # fmt: skip
def test_words_are_a_cardinal_number_or_none(words: str, number: int | None) -> None:
    assert parse_cardinal(words.split()) == number


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("four eight one two", ["4812"]), ("oh five", ["5"]), ("oh", []), ("one " * 15, ["1" * 15]), ("one " * 16, []),
        ("nine ninety", []), ("ten ten", ["1010"]), ("ninety nine ninety nine", ["9999"]), ("nineteen nine", []),
        ("nineteen oh nine", ["1909"]), ("nineteen zero nine", ["1909"]), ("nineteen oh ten", []), ("ten oh oh", []),
        ("twenty twenty one", ["2021"]), ("nineteen hundred", ["1900"]), ("fifty five hundred", ["5500"]),
        ("one ten", []), ("eleven ten", ["1110"]), ("twelve nine", []), ("one hundred and oh", ["100"]),
        ("1 2 3 4 5 6 7 8 9 0 1 2 3 4 5", ["123456789012345"]), ("12/3", []), ("1/2/3", ["123"]), ("1o1", ["101"]),
        ("2l3", ["213"]), ("1i1", ["111"]), ("a1o1", []), ("1o1b", []), ("3 point oh five", ["5"]),
        ("three point oh five", ["3", "3.05", "5"]), ("two thousand and", ["2000"]),
    ],
)  # fmt: skip
def test_digits_years_and_letters_are_numbers(text: str, numbers: list[str]) -> None:
    assert [each.text for each in find_spelt_numbers(Reading(text))] == numbers


def test_an_article_belongs_to_a_hundred_and_not_to_other_numbers() -> None:
    reading = Reading("a twenty, a thousand, the million, million")
    places = [reading.text[each.start : each.end] for each in find_spelt_numbers(reading)]
    assert places == ["twenty", "a thousand"]
    first = Reading("a hundred")
    assert [(each.text, each.start, each.end) for each in find_spelt_numbers(first)] == [("100", 0, 9)]


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("buses", ["bus", "buse"]), ("foxes", ["fox", "foxe"]), ("quizzes", ["quizz", "quizze"]),
        ("churches", ["church", "churche"]), ("dishes", ["dish", "dishe"]), ("glass", ["glasses"]),
        ("cactus", ["cactuses"]), ("basis", ["basises"]), ("waltz", ["waltzes"]), ("dish", ["dishes"]),
        ("toys", ["toy"]), ("toyy", ["toyies"]), ("play", ["plays"]), ("lamp", ["lamps"]), ("fox", []), ("café", []),
        ("mice", ["mouse"]), ("mouse", ["mice"]),
    ],
)  # fmt: skip
def test_plurals_and_singulars_are_those_of_the_ending(word: str, others: list[str]) -> None:
    assert list(inflect(word)) == others


@pytest.mark.parametrize(
    ("target", "forms"),
    [
        ("the", {("word", "the", True)}),
        ("lamps", {("word", "lamps", False), ("word", "lamp", False)}),
        ("ants", {("word", "ants", False), ("word", "ant", True)}),
        (
            "an owls",
            {("word", "anowls", False), ("word", "owls", False), ("word", "anowl", False), ("word", "owl", True)},
        ),
        ("red lamp", {("word", "redlamp", False), ("word", "redlamps", False)}),
        ("forty-two", {("word", "fortytwo", False), ("number", "42", True)}),
    ],
)
def test_the_spellings_of_a_target_are_these(target: str, forms: set[tuple[str, str, bool]]) -> None:
    assert {(form.how, form.text, form.weak) for form in derive_spellings(target)} == forms
