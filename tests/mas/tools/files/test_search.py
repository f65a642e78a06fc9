"""Searching: marks, context, gaps and very long lines."""

from mas.tools.files.document import Line, Part
from mas.tools.files.paging import AROUND_CHARS, search_lines


def lines(*texts: str) -> list[Line]:
    return [Line(number, text) for number, text in enumerate(texts, start=1)]


def texts(parts: list[Part]) -> list[str]:
    return [line.text for part in parts for line in part.lines]


def test_neighbours_are_merged_and_gaps_are_marked() -> None:
    found, count = search_lines([Part(lines(*"axcdefghixkl"))], "X")
    assert count == 2
    assert texts(found) == [
        *("  1 | a", "> 2 | x", "  3 | c", "  4 | d", "--"),
        *("  8 | h", "  9 | i", "> 10 | x", "  11 | k", "  12 | l"),
    ]


def test_row_numbers_are_those_of_the_table() -> None:
    found, _ = search_lines([Part([Line(7, "Rome"), Line(99, "Oslo")], numbered=True)], "oslo")
    assert texts(found) == ["  7 | Rome", "> 99 | Oslo"]


def test_parts_without_a_match_are_left_out() -> None:
    found, count = search_lines([Part(lines("a"), name="A"), Part(lines("b"), name="B")], "b")
    assert ([part.name for part in found], count) == (["B"], 1)


def test_the_wanted_text_is_no_pattern() -> None:
    assert search_lines([Part(lines("a.c", "abc"))], "a.c")[1] == 1
    assert search_lines([Part(lines("(("))], "((")[1] == 1


def test_of_a_very_long_line_only_the_surroundings_of_matches_are_shown() -> None:
    text = "a" * 100_000 + "needle" + "b" * 100_000 + "needle" + "c" * 100_000
    found, count = search_lines([Part(lines(text))], "needle")
    assert count == 1
    assert texts(found) == [
        f"> 1 | … {'a' * AROUND_CHARS}needle{'b' * AROUND_CHARS} … {'b' * AROUND_CHARS}needle{'c' * AROUND_CHARS} …"
    ]


def test_matches_close_together_are_shown_once() -> None:
    text = "a" * 2_000 + "needle-needle" + "b" * 2_000
    assert texts(search_lines([Part(lines(text))], "needle")[0]) == [
        f"> 1 | … {'a' * AROUND_CHARS}needle-needle{'b' * AROUND_CHARS} …"
    ]
