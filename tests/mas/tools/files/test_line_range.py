"""A range of lines: as the file numbers them, gaps and several parts included."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mas.tools.files.document import Line, Part
from mas.tools.files.paging import select_lines, split_pages
from mas.tools.results import ToolError


def part(*numbers: int, name: str = "", numbered: bool = True) -> Part:
    return Part([Line(number, f"text-{number}") for number in numbers], name, numbered=numbered)


@given(
    st.sets(st.integers(0, 60), min_size=1),
    st.sets(st.integers(0, 60)),
    st.integers(0, 70),
    st.integers(0, 70),
)
@settings(max_examples=200, deadline=None)
def test_what_is_in_the_range_is_shown_and_nothing_else(a: set[int], b: set[int], first: int, last: int) -> None:
    parts = [part(*sorted(a), name="a"), part(*sorted(b), name="b")]
    if first > last or last < min(a | b) or first > max(a | b):
        with pytest.raises(ToolError, match=f"has the rows {min(a | b)} to {max(a | b)}"):
            select_lines(parts, f"{first}-{last}", "book.xlsx", "sheet")
        return
    shown, _ = select_lines(parts, f"{first}-{last}", "book.xlsx", "sheet")
    found = {each.name: [line.number for line in each.lines] for each in shown}
    for name, numbers in (("a", a), ("b", b)):
        assert found.get(name, []) == [number for number in sorted(numbers) if first <= number <= last]


def test_empty_rows_are_said_to_be_empty() -> None:
    shown, words = select_lines([part(1, 2, 90)], "10-20", "book.xlsx", "sheet")
    assert (split_pages(shown), words) == (["(empty)"], "rows 10-20 of 1-90")


def test_a_text_has_lines_and_shows_their_numbers() -> None:
    shown, words = select_lines([part(1, 2, 3, numbered=False)], "2-3", "notes.txt", "sheet")
    assert (split_pages(shown), words) == (["2 | text-2\n3 | text-3"], "lines 2-3 of 1-3")


def test_the_lines_of_pages_are_counted_page_by_page() -> None:
    shown, words = select_lines(
        [part(1, 2, name="1", numbered=False), part(1, name="2", numbered=False)], "1", "a.pdf", "page"
    )
    assert ([each.name for each in shown], words) == (["1", "2"], "line 1 of each page")


def test_what_has_no_lines_says_so() -> None:
    with pytest.raises(ToolError, match=r"empty\.txt has no lines; call read_file again without `lines`"):
        select_lines([Part([])], "1", "empty.txt", "sheet")
