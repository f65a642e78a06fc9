"""Excel workbooks: every sheet with values, formulas, fill colours, comments, and what is hidden or merged.

openpyxl reads what table libraries leave out, and questions do ask for it (the colour of a cell, a hidden row).

    read(Source("sales.xlsx", b"…")).parts[0].lines[1]     # Line(2, "Rome | 12 [=B5*2] [fill FFFF0000]")
"""

import colorsys
import datetime
from collections.abc import Iterable, Sequence
from typing import Any
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
    """Remembers each style: a sheet has few of them and many cells."""

    def __init__(self, workbook: Workbook) -> None:
        self._theme = _theme_colours(workbook)
        self._by_style: dict[int, str] = {}

    def of(self, cell: Cell | MergedCell) -> str:
        if not cell.has_style:
            return ""
        if cell.style_id not in self._by_style:
            self._by_style[cell.style_id] = self._described(cell)
        return self._by_style[cell.style_id]

    def _described(self, cell: Cell | MergedCell) -> str:
        kind = cell.fill.fill_type
        if not kind:
            return ""
        if not hasattr(cell.fill, "fgColor"):
            return f"fill {kind} gradient"
        colour = self._argb(cell.fill.fgColor)
        return f"fill {colour}" if kind == "solid" else f"fill {kind} {colour}"

    def _argb(self, colour: Color) -> str:
        """Eight hexadecimal digits; the first two are FF, since Excel itself ignores the opacity."""
        if colour.type == "theme" and int(colour.theme) < len(self._theme):
            return _tinted(self._theme[int(colour.theme)], float(colour.tint))
        if colour.type == "indexed" and int(colour.indexed) < len(COLOR_INDEX):
            return _tinted(COLOR_INDEX[int(colour.indexed)][-6:], float(colour.tint))
        if colour.type == "rgb":
            return _tinted(str(colour.rgb)[-6:], float(colour.tint))
        return f"{colour.type} {colour.value}"


def _theme_colours(workbook: Workbook) -> list[str]:
    """RGB by theme index; in the file each dark colour stands before its light one, in the index after it."""
    if not workbook.loaded_theme:
        return []
    scheme = ElementTree.fromstring(workbook.loaded_theme).find(f".//{_SCHEME}")
    if scheme is None:
        return []
    found = [colour[0].get("lastClr") or colour[0].get("val") or "000000" for colour in scheme if len(colour)]
    return [found[place] for place in (1, 0, 3, 2, *range(4, len(found)))] if len(found) >= 4 else found


def _tinted(rgb: str, tint: float) -> str:
    """Darker for a negative tint, lighter for a positive one (-1 is black, 1 is white)."""
    red, green, blue = (int(rgb[start : start + 2], 16) / 255 for start in (0, 2, 4))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    lightness = lightness * (1 + tint) if tint < 0 else lightness * (1 - tint) + tint
    channels = colorsys.hls_to_rgb(hue, lightness, saturation) if tint else (red, green, blue)
    return "FF" + "".join(f"{round(channel * 255):02X}" for channel in channels)


MAX_GRID_COLUMNS = 100  # a wider sheet shows its filled cells alone, each with its letter
MAX_LISTED = 40  # merged ranges, hidden rows or columns named in a sheet's heading

_NOT_SHOWN = {"xl/media/": "images", "xl/charts/chart": "charts", "xl/pivotTables/": "pivot tables"}

Grid = dict[int, dict[int, str]]  # row number, column number, what the cell shows


def read(source: Source) -> Document:
    notes = _check_archive(source)
    workbook = _loaded(source, data_only=False)
    computed = _loaded(source, data_only=True) if _has_formulas(workbook) else workbook
    colours = FillColours(workbook)
    parts = [_part(sheet, computed[sheet.title], colours) for sheet in workbook.worksheets]
    names = ", ".join(f'"{part.name}" ({len(part.lines)} rows)' for part in parts)
    return Document(f"workbook with {len(parts)} sheets: {names}", parts, notes)


def _check_archive(source: Source) -> list[str]:
    """Notes on what the workbook holds beside cells.

    Raises:
        ToolError: the archive is damaged, or unpacks to more than the limits.
    """
    members = list_members(source)
    counts = {kind: sum(member.startswith(start) for member in members) for start, kind in _NOT_SHOWN.items()}
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return [f"The workbook also holds {listed}, which are not shown."] if listed else []


def _loaded(source: Source, data_only: bool) -> Workbook:
    try:
        return load_workbook(source.stream(), data_only=data_only, keep_links=False)
    except Exception as error:  # a damaged file raises whatever the XML or the records lead to
        raise ToolError(f"{source.name} cannot be read as a workbook ({type(error).__name__}: {error}).") from error


def _cells(sheet: Worksheet) -> Iterable[tuple[tuple[int, int], Cell | MergedCell]]:
    """The cells that the file names, row by row; `iter_rows` would make 17 billion for one cell in the last corner."""
    return sorted(sheet._cells.items())


def _has_formulas(workbook: Workbook) -> bool:
    return any(cell.data_type == "f" for sheet in workbook.worksheets for _, cell in _cells(sheet))


def _part(sheet: Worksheet, computed: Worksheet, colours: FillColours) -> Part:
    grid: Grid = {}
    for (row, column), cell in _cells(sheet):
        if shown := _shown(cell, computed, colours):
            grid.setdefault(row, {})[column] = shown
    columns = _columns(grid)
    lines = [Line(number, _row(cells, columns) + _hidden_mark(sheet, number)) for number, cells in grid.items()]
    return Part(lines, name=sheet.title, heading=_heading(sheet, columns), numbered=True)


def _shown(cell: Cell | MergedCell, computed: Worksheet, colours: FillColours) -> str:
    value, marks = cell.value, [colours.of(cell)]
    if cell.data_type == "f":
        value = computed[cell.coordinate].value
        marks.insert(0, _formula(cell.value) + ("" if value is not None else ", result not stored in the file"))
    if cell.comment:
        marks.append(f"comment: {cell.comment.text.strip()}")
    texts = [_text(value), *(f"[{mark}]" for mark in marks if mark)]
    return format_cell(" ".join(text for text in texts if text))


def _formula(value: Any) -> str:
    """An array or data table formula is an object with the text and the range that it fills."""
    if isinstance(value, str):
        return value
    return f"{getattr(value, 'text', None) or '=TABLE()'} over {getattr(value, 'ref', 'its range')}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return repr(float(f"{value:.15g}"))  # Excel itself keeps 15 digits
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return str(value)


def _columns(grid: Grid) -> Sequence[int]:
    """The columns to line up, empty ones between them included; none for a sheet too wide for that."""
    used = {column for cells in grid.values() for column in cells}
    if not used or max(used) - min(used) >= MAX_GRID_COLUMNS:
        return ()
    return range(min(used), max(used) + 1)


def _row(cells: dict[int, str], columns: Sequence[int]) -> str:
    if columns:
        return " | ".join(cells.get(column, "") for column in columns)
    return " | ".join(f"{get_column_letter(column)}: {text}" for column, text in cells.items())


def _hidden_mark(sheet: Worksheet, number: int) -> str:
    return " [hidden row]" if number in sheet.row_dimensions and sheet.row_dimensions[number].hidden else ""


def _heading(sheet: Worksheet, columns: Sequence[int]) -> str:
    facts = [f'sheet "{sheet.title}"', f"cells {sheet.dimensions}"]
    if sheet.sheet_state != "visible":
        facts.append("hidden sheet")
    merged = [str(area) for area in sheet.merged_cells.ranges]
    formatted = [str(area.sqref) for area in sheet.conditional_formatting]
    lists = {
        "merged": merged,
        "hidden columns": _hidden_columns(sheet),
        "hidden rows": _spans(n for n, row in sheet.row_dimensions.items() if row.hidden),
        "colours by conditional formatting, not shown, in": formatted,
    }
    facts += [f"{label} {_listed(items)}" for label, items in lists.items() if items]
    letters = " | ".join(["row", *(get_column_letter(column) for column in columns)])
    return "\n".join(["; ".join(facts), letters if columns else "row | cells with their column letters"])


def _hidden_columns(sheet: Worksheet) -> list[str]:
    """One entry may stand for a range of columns."""
    hidden = [dimension for dimension in sheet.column_dimensions.values() if dimension.hidden]
    ends = [(dimension.min or 0, dimension.max or 0) for dimension in hidden]
    return [_span(get_column_letter(first), get_column_letter(last)) for first, last in sorted(ends) if first]


def _spans(numbers: Iterable[int]) -> list[str]:
    """[4, 5, 6, 9] as "4-6", "9"."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return [_span(str(first), str(last)) for first, last in spans]


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last}"


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - MAX_LISTED} more" if len(items) > MAX_LISTED else ""
    return ", ".join(items[:MAX_LISTED]) + more
