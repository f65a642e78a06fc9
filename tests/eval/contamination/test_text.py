"""Texts as leak checks read them: disguises undone, words and numbers with their places, lines and paragraphs."""

import pytest

from eval.contamination.forms import FormIndex, Reading, derive_inflected_forms, parse_quantity


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("A\\u0042\\nC\\tD\\x", "ab c d\\x"),
        ("&lt;x&amp;y", "<x&y"),
        ("Cafe\u0301 \xc9T\xc9 Stra\xdfe", "cafe ete strasse"),
        ("a\u200bb\xadc", "abc"),
        ("l\u2019\xe9t\xe9", "l'ete"),
        ("\u0663\u0664\xa0x\u2003y", "34 x y"),
        ("tab\there\rcr", "tab here cr"),
        ("\ufb01ne \u2460", "fine 1"),
        ("a\u0301\u0489", "a"),
    ],
)
def test_disguises_are_undone(text: str, read: str) -> None:
    assert Reading(text).text == read


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,234.50", [("1234.5", 0, 8), ("1", 0, 8), ("234.5", 0, 8)]),
        ("1.234,50", [("1234.5", 0, 8), ("1.234", 0, 8), ("50", 0, 8)]),
        ("1.234.567", [("1234567", 0, 9)]),
        ("12,5", [("12.5", 0, 4), ("12", 0, 4), ("5", 0, 4)]),
        ("1 234 567.8", [("1", 0, 1), ("234", 2, 5), ("567.8", 6, 11), ("1234567.8", 0, 11)]),
        ("3e3", [("3000", 0, 3)]),
        ("1.5e-2", [("0.015", 0, 6)]),
        (".5", [("0.5", 0, 2)]),
        ("v1.2", [("2", 3, 4)]),
        ("1,2,3", [("1", 0, 5), ("2", 0, 5), ("3", 0, 5)]),
        ("a1", []),
        ("1,234.", [("1234", 0, 5), ("1.234", 0, 5), ("1", 0, 5), ("234", 0, 5)]),
    ],
)
def test_a_number_is_read_in_every_possible_sense(text: str, numbers: list[tuple[str, int, int]]) -> None:
    assert [(each.text, each.start, each.end) for each in Reading(text).numbers] == numbers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("$1,234.50", "1234.5"),
        ("12 km", "12"),
        ("-3", "3"),
        ("1 234", "1234"),
        ("12 apples and", "12"),
        ("abc", None),
        ("", None),
        ("1.5e3 kg", "1500"),
        ("€ 7.", "7"),
        ("3..4", None),
        ("9" * 100, None),
    ],
)
def test_a_quantity_is_a_number_with_at_most_a_currency_and_a_unit(text: str, number: str | None) -> None:
    assert parse_quantity(text) == number


def test_a_script_without_blanks_is_read_by_character_and_places_are_those_of_the_text() -> None:
    reading = Reading("\u65e5\u672c Two_words")
    assert [(each.text, each.start, each.end) for each in reading.words] == [
        ("\u65e5", 0, 1),
        ("\u672c", 1, 2),
        ("two", 3, 6),
        ("words", 7, 12),
    ]


@pytest.mark.parametrize("text", ["312, 75, 40", "312 75 and 40", "312, 75, and 40", "312 and 75 and 40"])
def test_a_list_is_found_as_a_whole_however_its_items_are_joined(text: str) -> None:
    proofs = FormIndex(form for form in derive_inflected_forms("312, 75, 40") if not form.weak)
    assert list(proofs.find(Reading(f"answer {text} then")))
