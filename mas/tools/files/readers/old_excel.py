"""Reader of Excel workbooks before 2007 (.xls): xlrd reads one into a workbook as openpyxl has it.

read(Source("old.xls", data)).parts[0].lines[1]     # Line(2, "Rome | 12 [fill FFFF0000]")
"""

import io
from typing import TYPE_CHECKING, Any

from openpyxl import Workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from openpyxl.comments import Comment
from openpyxl.styles import PatternFill
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet

if TYPE_CHECKING:
    from xlrd.book import Book  # type: ignore[import-untyped]
    from xlrd.sheet import Cell, Sheet  # type: ignore[import-untyped]

from mas.tools.files.document import Document, Source
from mas.tools.files.readers.excel import describe_sheets
from mas.tools.results import ToolError

MAX_CELLS = 1_000_000


def read(source: Source) -> Document:
    """Return the sheets of a workbook."""
    import xlrd  # type: ignore[import-untyped]

    try:
        book = xlrd.open_workbook(file_contents=source.data, formatting_info=True, logfile=io.StringIO())
    except xlrd.XLRDError as error:
        raise ToolError(f"{source.name} cannot be read as an old Excel workbook ({type(error).__name__}).") from error
    if (cells := sum(sheet.nrows * sheet.ncols for sheet in book.sheets())) > MAX_CELLS:
        raise ToolError(f"{source.name} has {cells} cells; read_file reads old workbooks of at most {MAX_CELLS}.")
    workbook = Workbook()
    workbook.remove(workbook.worksheets[0])
    for sheet in book.sheets():
        _copy_sheet(book, sheet, workbook.create_sheet(sheet.name))
    parts, names = describe_sheets(workbook, workbook)
    notes = ["The formulas of an old workbook are not shown, only their results."]
    return Document(f"old Excel workbook with {len(parts)} sheets: {names}", parts, notes)


def _copy_sheet(book: "Book", sheet: "Sheet", copy: Worksheet) -> None:
    for row in range(sheet.nrows):
        for column in range(sheet.ncols):
            found = sheet.cell(row, column)
            cell = copy.cell(row + 1, column + 1)
            cell.value = _convert_value(book, found)
            cell.data_type = "s" if isinstance(cell.value, str) else cell.data_type  # not a formula
            if colour := _find_fill(book, found.xf_index):
                cell.fill = PatternFill("solid", fgColor=colour)
            if note := sheet.cell_note_map.get((row, column)):
                cell.comment = Comment(note.text, "")
    for top, below, left, right in sheet.merged_cells:
        copy.merge_cells(start_row=top + 1, end_row=below, start_column=left + 1, end_column=right)
    for row, info in sheet.rowinfo_map.items():
        copy.row_dimensions[row + 1].hidden = bool(info.hidden)
    for column, info in sheet.colinfo_map.items():
        copy.column_dimensions[get_column_letter(column + 1)].hidden = bool(info.hidden)
    copy.sheet_state = "hidden" if sheet.visibility else "visible"


def _convert_value(book: "Book", cell: "Cell") -> Any:
    import xlrd

    if cell.ctype == xlrd.XL_CELL_DATE:
        try:
            return xlrd.xldate_as_datetime(cell.value, book.datemode)
        except (ValueError, OverflowError, xlrd.XLDateError):
            return cell.value
    if cell.ctype == xlrd.XL_CELL_NUMBER:
        return int(cell.value) if float(cell.value).is_integer() else cell.value
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return bool(cell.value)
    if cell.ctype == xlrd.XL_CELL_ERROR:
        return xlrd.error_text_from_code.get(cell.value, "#ERROR")
    return ILLEGAL_CHARACTERS_RE.sub(" ", cell.value) or None


def _find_fill(book: "Book", style: int | None) -> str:
    """Return the colour of a solid fill."""
    if style is None or style >= len(book.xf_list) or book.xf_list[style].background.fill_pattern != 1:
        return ""
    colour = book.colour_map.get(book.xf_list[style].background.pattern_colour_index)
    return "FF{:02X}{:02X}{:02X}".format(*colour) if colour else ""
