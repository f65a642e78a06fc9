"""Excel: everything that a question may ask about a workbook, on workbooks made here."""

import datetime
import re
import zipfile
from pathlib import Path

import pytest
from openpyxl import Workbook
from openpyxl.comments import Comment
from openpyxl.formatting.rule import Rule
from openpyxl.styles import Color, GradientFill, PatternFill
from openpyxl.worksheet.formula import ArrayFormula
from openpyxl.worksheet.worksheet import Worksheet

from mas.tools.files.document import Document, Line, Source
from mas.tools.files.kinds import read_in_process
from mas.tools.results import ToolError


@pytest.fixture
def book() -> Workbook:
    return Workbook()


@pytest.fixture
def sheet(book: Workbook) -> Worksheet:
    return book.worksheets[0]


def read_book(path: Path) -> Document:
    return read_in_process(Source(path.name, path.read_bytes()))


def saved(book: Workbook, folder: Path) -> Document:
    book.save(folder / "b.xlsx")
    return read_book(folder / "b.xlsx")


def test_values_of_every_type(book: Workbook, sheet: Worksheet, tmp_path: Path) -> None:
    sheet.append(["text", 3, 0.1 + 0.2, True, datetime.date(2024, 1, 31), datetime.datetime(2024, 1, 31, 9, 30)])
    sheet.append(["a|b\nc", None, "#DIV/0!", datetime.time(9, 30), datetime.timedelta(hours=30), " "])
    part = saved(book, tmp_path).parts[0]
    assert part.heading.endswith("\nrow | A | B | C | D | E | F")
    assert part.lines[0] == Line(1, "text | 3 | 0.3 | TRUE | 2024-01-31 | 2024-01-31 09:30:00")
    assert part.lines[1].text.startswith(r"a\|b\nc |  | #DIV/0! | 09:30:00 | 1 day, 6:00:00 | ")


def test_a_formula_shows_its_text_and_its_stored_result(book: Workbook, sheet: Worksheet, tmp_path: Path) -> None:
    sheet["A1"], sheet["A2"] = 2, "=A1*2"
    sheet["A3"] = ArrayFormula("A3:A4", "=A1:A2*3")
    lines = saved(book, tmp_path).parts[0].lines
    assert lines[1] == Line(2, "[=A1*2, result not stored in the file]")
    assert lines[2] == Line(3, "[=A1:A2*3 over A3:A4, result not stored in the file]")
    again = read_book(with_stored_result(tmp_path / "b.xlsx"))
    assert again.parts[0].lines[1] == Line(2, "4 [=A1*2]")


def with_stored_result(path: Path) -> Path:
    """The workbook as Excel itself saves it: openpyxl writes formulas without results."""
    result = path.with_name("computed.xlsx")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(result, "w") as new:
        for member in old.namelist():
            data = old.read(member)
            new.writestr(member, re.sub(rb"<f>A1\*2</f><v ?/?>(</v>)?", b"<f>A1*2</f><v>4</v>", data))
    return result


def test_fill_colours_in_each_notation(book: Workbook, sheet: Worksheet, tmp_path: Path) -> None:
    fills = {
        "A1": (PatternFill("solid", fgColor="FFFF0000"), "[fill FFFF0000]"),
        "A2": (PatternFill("solid", fgColor="00FF00"), "[fill FF00FF00]"),
        "A3": (PatternFill("solid", fgColor=Color(theme=4)), "[fill FF4F81BD]"),  # Office 2007: accent 1
        "A4": (PatternFill("solid", fgColor=Color(theme=4, tint=0.4)), "[fill FF95B3D7]"),  # "lighter 40%" in Excel
        "A5": (PatternFill("solid", fgColor=Color(theme=0, tint=-0.5)), "[fill FF808080]"),  # white, "darker 50%"
        "A6": (PatternFill("solid", fgColor=Color(indexed=10)), "[fill FFFF0000]"),
        "A7": (PatternFill("lightUp", fgColor="FF0000FF"), "[fill lightUp FF0000FF]"),
        "A8": (GradientFill(stop=("FF0000", "0000FF")), "[fill linear gradient]"),
    }
    for cell, (fill, _) in fills.items():
        sheet[cell].fill = fill
    lines = saved(book, tmp_path).parts[0].lines
    assert [line.text for line in lines] == [expected for _, expected in fills.values()]


def test_comments_hidden_and_merged(book: Workbook, sheet: Worksheet, tmp_path: Path) -> None:
    for row in range(1, 10):
        sheet.append([f"r{row}", row, "c"])
    sheet["A1"].comment = Comment("check\nthis", "Ann")
    sheet.merge_cells("A12:B13")
    for row in (4, 5, 6, 9):
        sheet.row_dimensions[row].hidden = True
    sheet.column_dimensions.group("B", "D", hidden=True)
    sheet.conditional_formatting.add("C1:C9", Rule(type="duplicateValues"))
    book.create_sheet("Deep").sheet_state = "veryHidden"
    first, second = saved(book, tmp_path).parts
    assert first.lines[0] == Line(1, r"r1 [comment: check\nthis] | 1 | c")
    assert first.lines[3] == Line(4, "r4 | 4 | c [hidden row]")
    facts = first.heading.split("\n")[0].split("; ")
    assert {"merged A12:B13", "hidden columns B-D"} < set(facts)
    assert "colours by conditional formatting, not shown, in C1:C9" in facts
    assert "hidden sheet" in second.heading
    assert second.lines == []


def test_the_summary_names_every_sheet(book: Workbook, sheet: Worksheet, tmp_path: Path) -> None:
    sheet.title = "Sales"
    sheet["C7"] = 1
    book.create_sheet("Costs")
    document = saved(book, tmp_path)
    assert document.summary == 'workbook with 2 sheets: "Sales" (1 rows), "Costs" (0 rows)'
    assert document.parts[0].lines == [Line(7, "1")]
    assert document.parts[0].heading.endswith("\nrow | C")


def test_a_cell_in_the_last_corner_costs_nothing(book: Workbook, sheet: Worksheet, tmp_path: Path) -> None:
    sheet["A1"], sheet["XFD1048576"] = "first", "last"
    assert saved(book, tmp_path).parts[0].lines == [Line(1, "A: first"), Line(1_048_576, "XFD: last")]


def test_images_and_charts_are_mentioned(book: Workbook, tmp_path: Path) -> None:
    saved(book, tmp_path)
    with zipfile.ZipFile(tmp_path / "b.xlsx", "a") as archive:
        archive.writestr("xl/media/image1.png", b"")
    notes = read_book(tmp_path / "b.xlsx").notes
    assert notes == ["The workbook also holds images, charts or pivot tables, which are not shown."]


def test_a_damaged_workbook_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.xlsx"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("xl/workbook.xml", "<broken")
    with pytest.raises(ToolError, match=r"empty\.xlsx cannot be read as \.xlsx"):
        read_book(empty)
    cut = tmp_path / "cut.xlsx"
    cut.write_bytes(empty.read_bytes()[:60])
    with pytest.raises(ToolError, match=r"cut\.xlsx cannot be read as \.xlsx: it is damaged"):
        read_book(cut)
