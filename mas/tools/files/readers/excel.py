"""Reader of Excel workbooks: values, formulas, fill colours, comments, hidden and merged cells of every sheet.

openpyxl reads what table libraries leave out and questions ask for (the colour of a cell, a hidden row).

    read(Source("sales.xlsx", b"…")).parts[0].lines[1]     # Line(2, "Rome | 12 [=B5*2] [fill FFFF0000]")
"""

import colorsys
import datetime
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from openpyxl import load_workbook
from openpyxl.cell.cell import Cell, MergedCell
from openpyxl.styles.colors import COLOR_INDEX, Color
from openpyxl.utils import get_column_letter
from openpyxl.workbook.workbook import Workbook
from openpyxl.worksheet.worksheet import Worksheet

from mas.tools.files.document import Document, Line, Part, Source
from mas.tools.files.readers.text import format_cell
from mas.tools.files.zip_package import list_members
from mas.tools.results import ToolError

_SCHEME = "{http://schemas.openxmlformats.org/drawingml/2006/main}clrScheme"


class FillColours:
    """Cache of the fill colours by style: a sheet has few styles and many cells."""

    def __init__(self, workbook: Workbook) -> None:
        self._theme = _theme_colours(workbook)
        self._by_style: dict[int, str] = {}

    def describe(self, cell: Cell | MergedCell) -> str:
        """Return the fill of a cell in words; "" without one."""
        if not cell.has_style:
            return ""
        if cell.style_id not in self._by_style:
            self._by_style[cell.style_id] = self._describe(cell)
        return self._by_style[cell.style_id]

    def _describe(self, cell: Cell | MergedCell) -> str:
        kind = cell.fill.fill_type
        if not kind:
            return ""
        if not hasattr(cell.fill, "fgColor"):
            return f"fill {kind} gradient"
        colour = self._argb(cell.fill.fgColor)
        return f"fill {colour}" if kind == "solid" else f"fill {kind} {colour}"

    def _argb(self, colour: Color) -> str:
        """Return eight hexadecimal digits; the first two are FF, since Excel ignores the opacity."""
        if colour.type == "theme" and int(colour.theme) < len(self._theme):
            return _tint(self._theme[int(colour.theme)], float(colour.tint))
        if colour.type == "indexed" and int(colour.indexed) < len(COLOR_INDEX):
            return _tint(COLOR_INDEX[int(colour.indexed)][-6:], float(colour.tint))
        if colour.type == "rgb":
            return _tint(str(colour.rgb)[-6:], float(colour.tint))
        return f"{colour.type} {colour.value}"


def _theme_colours(workbook: Workbook) -> list[str]:
    """Return RGB by theme index; in the file each dark colour precedes its light one, in the index it follows it."""
    if not workbook.loaded_theme:
        return []
    scheme = ElementTree.fromstring(workbook.loaded_theme).find(f".//{_SCHEME}")
    if scheme is None:
        return []
    found = [colour[0].get("lastClr") or colour[0].get("val") or "000000" for colour in scheme if len(colour)]
    return [found[place] for place in (1, 0, 3, 2, *range(4, len(found)))] if len(found) >= 4 else found


def _tint(rgb: str, tint: float) -> str:
    """Return the colour darker for a negative tint, lighter for a positive one (-1 is black, 1 is white)."""
    red, green, blue = (int(rgb[start : start + 2], 16) / 255 for start in (0, 2, 4))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    lightness = lightness * (1 + tint) if tint < 0 else lightness * (1 - tint) + tint
    channels = colorsys.hls_to_rgb(hue, lightness, saturation) if tint else (red, green, blue)
    return "FF" + "".join(f"{round(channel * 255):02X}" for channel in channels)


MAX_GRID_COLUMNS = 100  # a wider sheet shows its filled cells alone, each with its letter
MAX_LISTED = 40  # merged ranges or hidden columns named in a sheet's heading

Grid = dict[int, dict[int, str]]  # row number → column number → text of the cell


def read(source: Source) -> Document:
    """Return the sheets of a workbook."""
    members = list_members(source)
    workbook = _load(source, data_only=False)
    computed = _load(source, data_only=True) if _has_formulas(workbook) else workbook
    parts, names = describe_sheets(workbook, computed)
    has_more = any(member.startswith(("xl/media/", "xl/charts/", "xl/pivotTables/")) for member in members)
    notes = ["The workbook also holds images, charts or pivot tables, which are not shown."] if has_more else []
    return Document(f"workbook with {len(parts)} sheets: {names}", parts, notes)


def describe_sheets(workbook: Workbook, computed: Workbook) -> tuple[list[Part], str]:
    """Return the sheets, and a list of their names; `computed`: the same workbook with the results of formulas."""
    colours = FillColours(workbook)
    parts = [_build_part(sheet, computed[sheet.title], colours) for sheet in workbook.worksheets]
    return parts, ", ".join(f'"{part.name}" ({len(part.lines)} rows)' for part in parts)


def _load(source: Source, data_only: bool) -> Workbook:
    try:
        return load_workbook(source.open(), data_only=data_only, keep_links=False)
    except Exception as error:  # a damaged file may raise anything
        raise ToolError(f"{source.name} cannot be read as a workbook ({type(error).__name__}: {error}).") from error


def _list_cells(sheet: Worksheet) -> Iterable[tuple[tuple[int, int], Cell | MergedCell]]:
    """Return the cells in the file, row by row; `iter_rows` would make 17 billion for one cell in the last corner."""
    return sorted(sheet._cells.items())


def _has_formulas(workbook: Workbook) -> bool:
    return any(cell.data_type == "f" for sheet in workbook.worksheets for _, cell in _list_cells(sheet))


def _build_part(sheet: Worksheet, computed: Worksheet, colours: FillColours) -> Part:
    grid: Grid = {}
    for (row, column), cell in _list_cells(sheet):
        if shown := _describe_cell(cell, computed, colours):
            grid.setdefault(row, {})[column] = shown
    columns = _choose_columns(grid)
    lines = [Line(number, _format_row(cells, columns) + _hidden_mark(sheet, number)) for number, cells in grid.items()]
    return Part(lines, name=sheet.title, heading=_build_heading(sheet, columns), numbered=True)


def _describe_cell(cell: Cell | MergedCell, computed: Worksheet, colours: FillColours) -> str:
    value, marks = cell.value, [colours.describe(cell)]
    if cell.data_type == "f":
        value = computed[cell.coordinate].value
        marks.insert(
            0, _describe_formula(cell.value) + ("" if value is not None else ", result not stored in the file")
        )
    if cell.comment:
        marks.append(f"comment: {cell.comment.text.strip()}")
    texts = [_format_value(value), *(f"[{mark}]" for mark in marks if mark)]
    return format_cell(" ".join(text for text in texts if text))


def _describe_formula(value: object) -> str:
    """Return a formula's text; that of an array or data table is an object with the text and its range."""
    if isinstance(value, str):
        return value
    return f"{getattr(value, 'text', None) or '=TABLE()'} over {getattr(value, 'ref', 'its range')}"


def _format_value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return repr(float(f"{value:.15g}"))  # Excel itself keeps 15 digits
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value)


def _choose_columns(grid: Grid) -> Sequence[int]:
    """Return the columns to align, with the empty ones between them; none for a sheet that is too wide."""
    used = {column for cells in grid.values() for column in cells}
    if not used or max(used) - min(used) >= MAX_GRID_COLUMNS:
        return ()
    return range(min(used), max(used) + 1)


def _format_row(cells: dict[int, str], columns: Sequence[int]) -> str:
    if columns:
        return " | ".join(cells.get(column, "") for column in columns)
    return " | ".join(f"{get_column_letter(column)}: {text}" for column, text in cells.items())


def _hidden_mark(sheet: Worksheet, number: int) -> str:
    return " [hidden row]" if number in sheet.row_dimensions and sheet.row_dimensions[number].hidden else ""


def _build_heading(sheet: Worksheet, columns: Sequence[int]) -> str:
    facts = [f'sheet "{sheet.title}"', f"cells {sheet.dimensions}"]
    if sheet.sheet_state != "visible":
        facts.append("hidden sheet")
    merged = [str(area) for area in sheet.merged_cells.ranges]
    formatted = [str(area.sqref) for area in sheet.conditional_formatting]
    lists = {
        "merged": merged,
        "hidden columns": _list_hidden_columns(sheet),
        "colours by conditional formatting, not shown, in": formatted,
    }
    facts += [f"{label} {_join_items(items)}" for label, items in lists.items() if items]
    letters = " | ".join(["row", *(get_column_letter(column) for column in columns)])
    return "\n".join(["; ".join(facts), letters if columns else "row | cells with their column letters"])


def _list_hidden_columns(sheet: Worksheet) -> list[str]:
    """Return the hidden columns; one entry may be a range of columns."""
    hidden = [dimension for dimension in sheet.column_dimensions.values() if dimension.hidden]
    ends = [(dimension.min or 0, dimension.max or 0) for dimension in hidden]
    letters = [(get_column_letter(first), get_column_letter(last)) for first, last in sorted(ends) if first]
    return [first if first == last else f"{first}-{last}" for first, last in letters]


def _join_items(items: Sequence[str]) -> str:
    more = f" and {len(items) - MAX_LISTED} more" if len(items) > MAX_LISTED else ""
    return ", ".join(items[:MAX_LISTED]) + more
