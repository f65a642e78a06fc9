"""Reader of Excel workbooks before 2007 (.xls): values, fill colours, comments, hidden and merged cells.

read(Source("old.xls", data)).parts[0].lines[1]     # Line(2, "Rome | 12 [fill FFFF0000]")
"""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlrd.book import Book  # type: ignore[import-untyped]
    from xlrd.sheet import Cell, Sheet  # type: ignore[import-untyped]

from mas.tools.files.document import Document, Line, Part, Source
from mas.tools.files.readers.text import format_cell
from mas.tools.results import ToolError

MAX_CELLS = 1_000_000


def read(source: Source) -> Document:
    """Return the sheets of a workbook."""
    import xlrd  # type: ignore[import-untyped]

    try:
        book = xlrd.open_workbook(file_contents=source.data, formatting_info=True, logfile=io.StringIO())
    except xlrd.XLRDError as error:
        raise ToolError(f"{source.name} cannot be read as an old Excel workbook ({type(error).__name__}).") from error
    sheets = book.sheets()
    if (cells := sum(sheet.nrows * sheet.ncols for sheet in sheets)) > MAX_CELLS:
        raise ToolError(f"{source.name} has {cells} cells; read_file reads old workbooks of at most {MAX_CELLS}.")
    parts = [_build_part(book, sheet) for sheet in sheets]
    names = ", ".join(f'"{part.name}" ({len(part.lines)} rows)' for part in parts)
    notes = ["The formulas of an old workbook are not shown, only their results."]
    return Document(f"old Excel workbook with {len(parts)} sheets: {names}", parts, notes)


def _build_part(book: "Book", sheet: "Sheet") -> Part:
    from xlrd import colname

    shown = [
        (row, [_describe_cell(book, sheet, row, column) for column in range(sheet.ncols)]) for row in range(sheet.nrows)
    ]
    hidden = {row for row, info in sheet.rowinfo_map.items() if info.hidden}
    lines = [
        Line(row + 1, " | ".join(cells) + (" [hidden row]" if row in hidden else ""))
        for row, cells in shown
        if any(cells)
    ]
    facts = [f'sheet "{sheet.name}"', f"{sheet.nrows} rows, {sheet.ncols} columns"]
    facts += ["hidden sheet"] if sheet.visibility else []
    if columns := [colname(column) for column, info in sheet.colinfo_map.items() if info.hidden]:
        facts.append(f"hidden columns {', '.join(columns[:40])}")
    if merged := [_format_area(*area) for area in sheet.merged_cells]:
        facts.append(f"merged {', '.join(merged[:40])}")
    letters = " | ".join(["row", *map(colname, range(sheet.ncols))])
    return Part(lines, name=sheet.name, heading=f"{'; '.join(facts)}\n{letters}", numbered=True)


def _format_area(top: int, below: int, left: int, right: int) -> str:
    from xlrd import colname

    return f"{colname(left)}{top + 1}:{colname(right - 1)}{below}"


def _describe_cell(book: "Book", sheet: "Sheet", row: int, column: int) -> str:
    cell = sheet.cell(row, column)
    note = sheet.cell_note_map.get((row, column))
    marks = [_describe_fill(book, cell.xf_index), f"comment: {note.text.strip()}" if note else ""]
    texts = [_format_value(book, cell), *(f"[{mark}]" for mark in marks if mark)]
    return format_cell(" ".join(text for text in texts if text))


def _format_value(book: "Book", cell: "Cell") -> str:
    import xlrd

    if cell.ctype == xlrd.XL_CELL_DATE:
        try:
            moment = xlrd.xldate_as_datetime(cell.value, book.datemode)
        except (ValueError, OverflowError, xlrd.XLDateError):
            return str(cell.value)
        return str(moment.isoformat(" ").removesuffix(" 00:00:00"))
    if cell.ctype == xlrd.XL_CELL_NUMBER:
        return str(int(cell.value)) if float(cell.value).is_integer() else repr(float(f"{cell.value:.15g}"))
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    if cell.ctype == xlrd.XL_CELL_ERROR:
        return str(xlrd.error_text_from_code.get(cell.value, "#ERROR"))
    return str(cell.value)


def _describe_fill(book: "Book", style: int | None) -> str:
    """Return a solid fill as the reader of .xlsx does."""
    if style is None or style >= len(book.xf_list) or book.xf_list[style].background.fill_pattern != 1:
        return ""
    colour = book.colour_map.get(book.xf_list[style].background.pattern_colour_index)
    return "fill FF{:02X}{:02X}{:02X}".format(*colour) if colour else ""
