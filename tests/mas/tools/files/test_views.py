"""What `read_file` shows of a document for each of its arguments."""

from typing import Any

import pytest

from mas.tools.files.document import Document, Line, Part, number_lines, number_parts
from mas.tools.files.paging import MAX_HEADER_CHARS, MAX_PAGE_CHARS, MAX_PIECE_CHARS
from mas.tools.files.views import show_file
from mas.tools.results import ToolError

BOOK = Document(
    "book",
    [Part([Line(1, "Rome"), Line(2, "Oslo")], "North", "sheet North"), Part([Line(1, "Lima")], "South", "sheet South")],
    ["One note."],
    unit="sheet",
)
SLIDES = Document("deck", number_parts("slide", [["one"], ["two"], ["three"]]), unit="slide")
LONG = Document("text", [Part(number_lines(["x" * MAX_PIECE_CHARS] * 5))])


def show(document: Document, **wanted: Any) -> str:
    arguments = {"file": "f", "name": "f", "sheet": "", "lines": "", "search": "", "page": 1, **wanted}
    facts = show_file(document.pack(), arguments).facts
    assert facts["text"][facts["start"] - 2 : facts["start"]] == "\n\n"
    return facts["text"]


def test_everything_is_shown_below_its_header() -> None:
    assert show(BOOK) == "f: book; page 1 of 1\nOne note.\n\nsheet North\nRome\nOslo\nsheet South\nLima"


@pytest.mark.parametrize("sheet", ["South", "south", "SOUTH"])
def test_a_sheet_is_chosen_by_its_name(sheet: str) -> None:
    assert show(BOOK, sheet=sheet).endswith("\n\nsheet South\nLima")


@pytest.mark.parametrize(
    ("sheet", "shown"),
    [("2", ["two"]), ("slide 2", ["two"]), ("Slides 2-3", ["two", "three"]), ("1\u20133", ["one", "two", "three"]),
     ("3", ["three"]), ("1 - 1", ["one"])],
)  # fmt: skip
def test_slides_are_chosen_by_number_or_range(sheet: str, shown: list[str]) -> None:
    text = show(SLIDES, sheet=sheet)
    assert [word for word in ("one", "two", "three") if word in text.split()] == shown


@pytest.mark.parametrize("sheet", ["0", "4", "3-2", "2-4", "0-1", "two", "-1", "1-"])
def test_slides_that_are_not_there_are_refused_with_those_that_are(sheet: str) -> None:
    with pytest.raises(ToolError, match=r'f has the slides 1 to 3; give `sheet` one of these numbers .* "1-3"'):
        show(SLIDES, sheet=sheet)


def test_sheets_that_are_not_there_are_refused() -> None:
    with pytest.raises(ToolError, match="No sheet of f is named 'East'; its sheets: 'North', 'South'"):
        show(BOOK, sheet="East")
    with pytest.raises(ToolError, match="f has no sheets; call read_file again without"):
        show(LONG, sheet="1")


def test_a_search_and_a_range_are_named_in_the_header() -> None:
    assert show(BOOK, search="rome").startswith("f: book; lines that contain 'rome': 1; page 1 of 1\n")
    none = show(BOOK, search="Cairo")
    assert "lines that contain 'Cairo': 0" in none and none.endswith(
        "\n\n(no line to show; try a shorter or another search)"
    )
    both = show(BOOK, lines="1", search="o")
    assert "; lines that contain 'o': 1; page" in both and "Oslo" not in both


def test_pages_are_counted_and_the_header_says_how_to_go_on() -> None:
    first, last = show(LONG), show(LONG, page=3)
    assert 'page 1 of 3; the rest: page=2, or search="some text" or lines="100-140"' in first
    assert 'or sheet="3-5"' not in first and "the rest" not in last
    assert 'or sheet="3-5" for some slides' in show(Document("t", LONG.parts, unit="slide"))
    assert "some lines alone" not in show(LONG, search="x")
    for page in (0, 4, -1):
        with pytest.raises(ToolError, match=f"no page {page}: f has the pages 1 to 3"):
            show(LONG, page=page)


def test_a_header_keeps_to_its_limit_however_long_the_summary_and_the_notes_are() -> None:
    assert "page 1 of 3" in show(Document("x" * 5_000, LONG.parts))
    noted = show(Document("x" * 5_000, LONG.parts, ["n" * 5_000]))
    assert len(noted) <= MAX_PAGE_CHARS and noted.index("\n\n") <= MAX_HEADER_CHARS


def test_every_argument_is_named_in_a_refusal_and_all_of_it_in_a_header() -> None:
    slides = Document("deck", [Part(number_lines(["x" * MAX_PIECE_CHARS] * 5), "1", "[slide 1]")], ["n"], unit="slide")
    header = show(slides, name="data.zip: f", sheet="1", lines="1-5", search="x").partition("\n\n")[0]
    assert header == (
        "data.zip: f: deck; lines 1-5 of 1-5; lines that contain 'x': 5; page 1 of 3; the rest: page=2, "
        'or sheet="3-5" for some slides\nn'
    )
    header = show(slides, name="data.zip: f").partition("\n\n")[0]
    assert header == (
        'data.zip: f: deck; page 1 of 3; the rest: page=2, or search="some text" or lines="100-140" for some lines '
        'alone, or sheet="3-5" for some slides\nn'
    )
    with pytest.raises(ToolError) as refused:
        show(SLIDES, sheet="9" * 7)
    assert str(refused.value) == (
        "f has the slides 1 to 3; give `sheet` one of these numbers or a range such as \"1-3\", not '9999999'."
    )
    with pytest.raises(ToolError) as refused:
        show(BOOK, page=2)
    assert str(refused.value) == "There is no page 2: f has the pages 1 to 1 for this call."


def test_a_sheet_of_exactly_the_name_goes_before_one_in_another_case() -> None:
    book = Document("book", [Part([Line(1, "a")], "north"), Part([Line(1, "b")], " NORTH ")])
    assert show(book, sheet="north").endswith("\n\na")
    assert show(book, sheet="North").endswith("\n\na\nb")


def test_half_characters_are_replaced_and_what_is_incomplete_stays_so() -> None:
    document = Document("s", [Part([Line(1, "a\ud800b")])], is_incomplete=True)
    wanted = {"file": "f", "name": "f", "sheet": "", "lines": "", "search": "", "page": 1}
    facts = show_file(document.pack(), wanted).facts
    assert facts == {"text": "f: s; page 1 of 1\n\na\ufffdb", "start": 19, "is_incomplete": True}
