"""Paging: no line lost or doubled, no page over the limit."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mas.tools.files.document import Line, Part
from mas.tools.files.paging import MAX_PAGE_CHARS, MAX_PIECE_CHARS, clip, split_pages

LENGTHS = st.lists(st.integers(0, 3 * MAX_PIECE_CHARS), max_size=12)


def part(name: str, lengths: list[int], heading: str = "heading") -> Part:
    lines = [Line(number, f"<{name}{number}>{'x' * length}") for number, length in enumerate(lengths, start=1)]
    return Part(lines, name=name, heading=heading)


@given(LENGTHS, LENGTHS, st.integers(0, 5_000))
@settings(max_examples=50, deadline=None)
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
