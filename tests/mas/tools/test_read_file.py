"""read_file from the agent's side: names, pages, searches and refusals, on real files."""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mas.tools.attachments import use_attachments
from mas.tools.files import kinds
from mas.tools.files.document import AROUND_CHARS, MAX_PAGE_CHARS, MAX_PIECE_CHARS
from mas.tools.read_file import read_file
from mas.tools.results import ToolError
from tests.file_bytes import pdf_bytes


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The question's files."""
    files = tmp_path / "question"
    files.mkdir()
    (files / "notes.txt").write_text("\n".join(f"line {number}" for number in range(1, 3_001)))
    (files / "rows.csv").write_text("id,name\n" + "".join(f"{number},name-{number}-end\n" for number in range(2_500)))
    book = openpyxl.Workbook()
    book.worksheets[0].title = "Sales"
    book.worksheets[0].append(["city", "n"])
    book.create_sheet("Costs").append(["rent", 7])
    book.save(files / "book.xlsx")
    with use_attachments([files / "notes.txt", files / "rows.csv", files / "book.xlsx"]):
        yield files


def all_pages(file: str) -> list[str]:
    first = read_file(file)
    count = int(re.search(r"page 1 of (\d+)", first)[1])  # type: ignore[index]
    return [first, *(read_file(file, page=page) for page in range(2, count + 1))]


def test_table_pages_hold_every_row_once_under_repeated_column_names(folder: Path) -> None:
    pages = all_pages("rows.csv")
    assert len(pages) > 1
    assert all(page.split("\n\n", 1)[1].startswith("row | id | name\n") for page in pages)
    assert re.findall(r"name-(\d+)-end", "".join(pages)) == [str(number) for number in range(2_500)]


LENGTHS = st.lists(st.integers(0, 3 * MAX_PIECE_CHARS), min_size=1, max_size=12)


@given(LENGTHS)
def test_every_line_of_a_text_is_whole_once_and_pages_stay_below_the_limit(lengths: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lines.txt"
        file.write_text("\n".join(f"<{number}>{'#' * length}" for number, length in enumerate(lengths)))
        with use_attachments([file]):
            pages = all_pages(file.name)
    assert all(len(page) <= MAX_PAGE_CHARS for page in pages)
    bodies = "\n".join(page.split("\n\n", 1)[1] for page in pages)
    assert re.findall(r"<(\d+)>", bodies) == [str(number) for number in range(len(lengths))]
    assert bodies.count("#") == sum(lengths)
    assert all(f"; the rest: page={number}, or search=" in page for number, page in enumerate(pages[:-1], start=2))
    assert "the rest" not in pages[-1]


@pytest.mark.parametrize("page", [0, -1, 999])
def test_a_page_that_does_not_exist_is_refused(folder: Path, page: int) -> None:
    with pytest.raises(ToolError, match=rf"no page {page}: there are the pages 1 to \d"):
        read_file("notes.txt", page=page)


def test_search_returns_matches_with_two_lines_around(folder: Path) -> None:
    found = read_file("notes.txt", search="LINE 1500")
    assert "lines that contain 'LINE 1500': 1" in found
    assert found.split("\n\n")[1].split("\n") == [
        "  1498 | line 1498",
        "  1499 | line 1499",
        "> 1500 | line 1500",
        "  1501 | line 1501",
        "  1502 | line 1502",
    ]


def test_neighbouring_matches_are_merged_gaps_marked_and_the_text_is_no_pattern(folder: Path) -> None:
    (folder / "notes.txt").write_text("\n".join("a(cdefgh(kl"))
    found = read_file("notes.txt", search="(")
    assert found.split("\n\n")[1].split("\n") == [
        *("  1 | a", "> 2 | (", "  3 | c", "  4 | d", "--"),
        *("  7 | g", "  8 | h", "> 9 | (", "  10 | k", "  11 | l"),
    ]
    assert "lines that contain 'a(c': 0" in read_file("notes.txt", search="a(c")


def test_of_a_very_long_line_only_the_surroundings_of_matches_are_shown(folder: Path) -> None:
    (folder / "notes.txt").write_text("a" * 100_000 + "needle-needle" + "b" * 100_000 + "needle" + "c" * 100_000)
    found = read_file("notes.txt", search="needle")
    assert "contain 'needle': 1" in found and found.count("needle") == 1 + 3
    assert len(found) < 5 * AROUND_CHARS and found.endswith(f"needle{'c' * AROUND_CHARS} …")


def test_a_sheet_is_shown_alone(folder: Path) -> None:
    costs = read_file("book.xlsx", sheet=" costs")
    assert "1 | rent | 7" in costs and "city" not in costs


def test_a_file_over_the_size_limit_is_refused(folder: Path) -> None:
    os.truncate(folder / "notes.txt", kinds.MAX_FILE_BYTES + 1)
    with pytest.raises(ToolError, match=rf"notes\.txt has \d+ bytes; read_file reads at most {kinds.MAX_FILE_BYTES}"):
        read_file("notes.txt")


def test_lone_surrogates_are_replaced(folder: Path) -> None:
    file = folder / "lone.json"
    file.write_text('{"a": "x\\ud800y", "b": "\\ud83d\\ude00"}')
    with use_attachments([file]):
        shown = read_file("lone.json")
    assert '"a": "x?y"' in shown
    assert '"b": "\U0001f600"' in shown
    shown.encode("utf-8")


def test_an_attachment_that_cannot_be_opened_is_named_without_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "towns.csv").write_text("town\nRome\n")

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with use_attachments([tmp_path / "towns.csv"]), pytest.raises(ToolError) as refused:
        read_file("towns.csv")
    assert "towns.csv cannot be read (Permission denied)" in str(refused.value)
    assert str(tmp_path) not in str(refused.value)


def test_what_is_empty_says_so(folder: Path) -> None:
    (folder / "notes.txt").write_text("")
    assert "(empty)" in read_file("notes.txt")


@pytest.mark.parametrize(
    ("wanted", "shown"), [("2", [2]), ("page 3", [3]), ("2-4", [2, 3, 4]), ("pages 1-2", [1, 2]), ("", [1, 2, 3, 4, 5])]
)
def test_pages_of_a_pdf_are_asked_for_by_number_or_range(tmp_path: Path, wanted: str, shown: list[int]) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf_bytes([[f"text-{number}"] for number in range(1, 6)]))
    with use_attachments([tmp_path / "a.pdf"]):
        found = read_file("a.pdf", sheet=wanted)
    assert re.findall(r"text-(\d)", found) == list(map(str, shown))
    assert re.findall(r"\[page (\d) of 5\]", found) == list(map(str, shown))
    with use_attachments([tmp_path / "a.pdf"]):
        searched = read_file("a.pdf", search="TEXT-2")
    assert "[page 2 of 5]" in searched and "> 1 | text-2" in searched and "[page 1 of 5]" not in searched


@pytest.mark.parametrize("wanted", ["0", "6", "4-2", "one", "2-9", "slide 2", "-1"])
def test_pages_that_a_pdf_does_not_have_are_refused(tmp_path: Path, wanted: str) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf_bytes([["x"]] * 5))
    with (
        use_attachments([tmp_path / "a.pdf"]),
        pytest.raises(ToolError, match=r"a\.pdf has the pages 1 to 5; .*\"1-5\""),
    ):
        read_file("a.pdf", sheet=wanted)
