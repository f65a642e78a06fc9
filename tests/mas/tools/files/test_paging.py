"""Paging: no line lost or doubled, no page over the limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mas.tools.files.document import Line, Part
from mas.tools.files.paging import (
    AROUND_CHARS,
    MAX_PAGE_CHARS,
    MAX_PIECE_CHARS,
    clip,
    search_lines,
    select_lines,
    split_pages,
)
from mas.tools.results import ToolError

LENGTHS = st.lists(st.integers(0, 3 * MAX_PIECE_CHARS), max_size=12)


def part(name: str, lengths: list[int], heading: str = "heading") -> Part:
    lines = [Line(number, f"<{name}{number}>{'x' * length}") for number, length in enumerate(lengths, start=1)]
    return Part(lines, name=name, heading=heading)


@given(LENGTHS, LENGTHS, st.integers(0, 5_000))
def test_every_line_is_whole_once_and_pages_stay_below_the_limit(
    first: list[int], second: list[int], heading_chars: int
) -> None:
    parts = [part("a", first, "h" * heading_chars), part("b", second)]
    pages = split_pages(parts)
    assert all(len(page) <= MAX_PAGE_CHARS for page in pages)
    joined = "\n".join(pages)
    for line in (*parts[0].lines, *parts[1].lines):
        assert joined.count(line.text[: line.text.index(">") + 1]) == 1
    assert joined.count("x") == sum(first) + sum(second)


def test_a_heading_is_on_each_page_of_its_part_and_on_no_other() -> None:
    pages = split_pages([part("a", [3_000] * 6, "first part"), part("b", [10], "second part")])
    assert [("first part" in page, "second part" in page) for page in pages] == [(True, False), (True, True)]


def test_an_empty_part_is_named() -> None:
    assert split_pages([part("a", [], "sheet A")]) == ["sheet A\n(empty)"]


def test_row_numbers_are_shown_for_tables_alone() -> None:
    lines = [Line(4, "x")]
    assert split_pages([Part(lines, numbered=True)]) == ["4 | x"]
    assert split_pages([Part(lines)]) == ["x"]


def test_clipped_text_keeps_to_its_limit_and_says_what_is_missing() -> None:
    assert clip("abc", 3) == "abc"
    assert len(clip("x" * 10_000, 500)) <= 500
    assert clip("x" * 10_000, 500).endswith("(9540 more characters)")


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


def numbered_part(*numbers: int, name: str = "", numbered: bool = True) -> Part:
    return Part([Line(number, f"text-{number}") for number in numbers], name, numbered=numbered)


@given(
    st.sets(st.integers(0, 60), min_size=1),
    st.sets(st.integers(0, 60)),
    st.integers(0, 70),
    st.integers(0, 70),
)
def test_what_is_in_the_range_is_shown_and_nothing_else(a: set[int], b: set[int], first: int, last: int) -> None:
    parts = [numbered_part(*sorted(a), name="a"), numbered_part(*sorted(b), name="b")]
    if first > last or last < min(a | b) or first > max(a | b):
        with pytest.raises(ToolError, match=f"has the rows {min(a | b)} to {max(a | b)}"):
            select_lines(parts, f"{first}-{last}", "book.xlsx", "sheet")
        return
    shown, _ = select_lines(parts, f"{first}-{last}", "book.xlsx", "sheet")
    found = {each.name: [line.number for line in each.lines] for each in shown}
    for name, numbers in (("a", a), ("b", b)):
        assert found.get(name, []) == [number for number in sorted(numbers) if first <= number <= last]


def test_empty_rows_are_said_to_be_empty() -> None:
    shown, words = select_lines([numbered_part(1, 2, 90)], "10-20", "book.xlsx", "sheet")
    assert (split_pages(shown), words) == (["(empty)"], "rows 10-20 of 1-90")


def test_a_text_has_lines_and_shows_their_numbers() -> None:
    shown, words = select_lines([numbered_part(1, 2, 3, numbered=False)], "2-3", "notes.txt", "sheet")
    assert (split_pages(shown), words) == (["2 | text-2\n3 | text-3"], "lines 2-3 of 1-3")


def test_the_lines_of_pages_are_counted_page_by_page() -> None:
    shown, words = select_lines(
        [numbered_part(1, 2, name="1", numbered=False), numbered_part(1, name="2", numbered=False)],
        "1",
        "a.pdf",
        "page",
    )
    assert ([each.name for each in shown], words) == (["1", "2"], "line 1 of each page")


def test_what_has_no_lines_says_so() -> None:
    with pytest.raises(ToolError, match=r"empty\.txt has no lines; call read_file again without `lines`"):
        select_lines([Part([])], "1", "empty.txt", "sheet")


def test_a_page_is_filled_to_its_last_character() -> None:
    for count, pages in ((95, 1), (96, 2), (190, 2), (191, 3)):
        assert len(split_pages([Part([Line(1, "x" * 99)] * count)])) == pages
