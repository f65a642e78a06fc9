"""Old workbooks: each value as Excel shows it, and what is known of fills, comments, hidden and merged cells."""

from types import SimpleNamespace as Made
from typing import Any

import pytest
import xlrd

from mas.tools.files.document import Document, Line, Source
from mas.tools.files.readers import old_excel
from mas.tools.results import ToolError

NOTE = "The formulas of an old workbook are not shown, only their results."


def cell(kind: int, value: object, style: int | None = None) -> Made:
    return Made(ctype=kind, value=value, xf_index=style)


def text(value: str, style: int | None = None) -> Made:
    return cell(xlrd.XL_CELL_TEXT, value, style)


def sheet(name: str, rows: list[list[Made]], **facts: Any) -> Made:
    plain: dict[str, Any] = {
        "rowinfo_map": {},
        "colinfo_map": {},
        "visibility": 0,
        "merged_cells": [],
        "cell_note_map": {},
    }
    return Made(
        name=name,
        nrows=len(rows),
        ncols=max(map(len, rows), default=0),
        cell=lambda row, column: rows[row][column],
        **{**plain, **facts},
    )


def style(pattern: int, colour: int) -> Made:
    return Made(background=Made(fill_pattern=pattern, pattern_colour_index=colour))


def read(monkeypatch: pytest.MonkeyPatch, *sheets: Made, datemode: int = 0) -> Document:
    book = Made(
        sheets=lambda: list(sheets),
        datemode=datemode,
        xf_list=[style(1, 10), style(0, 10), style(1, 11), style(1, 12)],
        colour_map={10: (255, 0, 10), 11: None},
    )
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(xlrd, "open_workbook", lambda **given: asked.append(given) or book)
    document = old_excel.read(Source("old.xls", b"bytes"))
    assert (asked[0]["file_contents"], asked[0]["formatting_info"]) == (b"bytes", True)
    return document


def test_a_sheet_shows_its_facts_its_letters_and_its_rows_that_are_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[text("ship"), text("load")], [text(""), text("")], [text("Velmor", 0), text("a|b")]]
    facts = {
        "rowinfo_map": {0: Made(hidden=0), 2: Made(hidden=1)},
        "colinfo_map": {0: Made(hidden=1), 1: Made(hidden=0), 27: Made(hidden=1)},
        "visibility": 1,
        "merged_cells": [(0, 1, 0, 2), (1, 3, 1, 2)],
        "cell_note_map": {(2, 0): Made(text=" not so \n")},
    }
    document = read(monkeypatch, sheet("ships", rows, **facts), sheet("empty", []))
    assert document.summary == 'old Excel workbook with 2 sheets: "ships" (2 rows), "empty" (0 rows)'
    assert document.notes == [NOTE]
    ships, empty = document.parts
    assert ships.lines == [
        Line(1, "ship | load"), Line(3, "Velmor [fill FFFF000A] [comment: not so] | a\\|b [hidden row]")
    ]  # fmt: skip
    assert ships.heading == (
        'sheet "ships"; 3 rows, 2 columns; hidden sheet; hidden columns A, AB; merged A1:B1, B2:B3\nrow | A | B'
    )
    assert (ships.name, ships.numbered) == ("ships", True)
    assert (empty.lines, empty.heading) == ([], 'sheet "empty"; 0 rows, 0 columns\nrow')


def test_of_many_hidden_columns_and_merged_areas_the_first_forty_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    areas = [(row, row + 1, 0, 2) for row in range(41)]
    hidden = {column: Made(hidden=1) for column in range(41)}
    (part,) = read(monkeypatch, sheet("s", [], merged_cells=areas, colinfo_map=hidden)).parts
    assert part.heading.endswith(", AM, AN; merged " + ", ".join(f"A{n}:B{n}" for n in range(1, 41)) + "\nrow")


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (xlrd.XL_CELL_TEXT, "Rome", "Rome"),
        (xlrd.XL_CELL_EMPTY, "", ""),
        (xlrd.XL_CELL_NUMBER, 12.0, "12"),
        (xlrd.XL_CELL_NUMBER, -0.5, "-0.5"),
        (xlrd.XL_CELL_NUMBER, 0.1 + 0.2, "0.3"),
        (xlrd.XL_CELL_BOOLEAN, 1, "TRUE"),
        (xlrd.XL_CELL_BOOLEAN, 0, "FALSE"),
        (xlrd.XL_CELL_ERROR, 7, "#DIV/0!"),
        (xlrd.XL_CELL_ERROR, 99, "#ERROR"),
        (xlrd.XL_CELL_DATE, 36526.0, "2000-01-01"),
        (xlrd.XL_CELL_DATE, 36526.75, "2000-01-01 18:00:00"),
        (xlrd.XL_CELL_DATE, -1e9, "-1000000000.0"),
    ],
)
def test_a_value_is_shown_as_it_is_meant(kind: int, value: object, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = read(monkeypatch, sheet("s", [[cell(kind, value), text("x")]])).parts
    assert part.lines == [Line(1, f"{shown} | x")]


def test_dates_count_from_the_day_that_the_workbook_names(monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = read(monkeypatch, sheet("s", [[cell(xlrd.XL_CELL_DATE, 35064.0)]]), datemode=1).parts
    assert part.lines == [Line(1, "2000-01-01")]


@pytest.mark.parametrize(
    ("number", "mark"), [(None, ""), (0, " [fill FFFF000A]"), (1, ""), (2, ""), (3, ""), (4, ""), (5, "")]
)
def test_only_a_solid_fill_of_a_known_colour_is_shown(
    number: int | None, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (part,) = read(monkeypatch, sheet("s", [[text("a", number)]])).parts
    assert part.lines == [Line(1, f"a{mark}")]


def test_a_workbook_may_have_as_many_cells_as_the_limit_in_all_its_sheets(monkeypatch: pytest.MonkeyPatch) -> None:
    row = [text("a"), text("b")]
    sheets = sheet("one", [row, row]), sheet("two", [row])
    monkeypatch.setattr(old_excel, "MAX_CELLS", 6)
    assert len(read(monkeypatch, *sheets).parts) == 2
    monkeypatch.setattr(old_excel, "MAX_CELLS", 5)
    with pytest.raises(ToolError) as refused:
        read(monkeypatch, *sheets)
    assert str(refused.value) == "old.xls has 6 cells; read_file reads old workbooks of at most 5."


def test_what_is_no_workbook_is_named() -> None:
    with pytest.raises(ToolError) as refused:
        old_excel.read(Source("old.xls", b"no workbook at all"))
    assert str(refused.value) == "old.xls cannot be read as an old Excel workbook (XLRDError)."
