"""Reader of Excel workbooks: values, formulas, fill colours, comments, hidden and merged cells.

openpyxl reads what table libraries leave out and questions ask for (the colour of a cell, a hidden row).
"""

import colorsys
import datetime
from collections.abc import Sequence
from xml.etree import ElementTree

from openpyxl import Workbook, load_workbook
from openpyxl.cell.cell import Cell, MergedCell
from openpyxl.styles.colors import COLOR_INDEX, Color
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet

from mas.tools.files.document import Document, Line, Part, Source, format_cell
from mas.tools.files.zip_package import list_members

_SCHEME = "{http://schemas.openxmlformats.org/drawingml/2006/main}clrScheme"
MAX_GRID_COLUMNS = 100  # a wider sheet shows its filled cells alone, each with its letter
MAX_LISTED = 40  # merged ranges or hidden columns named in a sheet's heading


def read(source: Source) -> Document:
    members = list_members(source)
    workbook = load_workbook(source.open(), keep_links=False)
    has_formulas = any(cell.data_type == "f" for sheet in workbook.worksheets for cell in sheet._cells.values())
    computed = load_workbook(source.open(), keep_links=False, data_only=True) if has_formulas else workbook
    theme = _list_theme_colours(workbook)
    parts = [_build_part(sheet, computed[sheet.title], theme) for sheet in workbook.worksheets]
    names = ", ".join(f'"{part.name}" ({len(part.lines)} rows)' for part in parts)
    has_more = any(member.startswith(("xl/media/", "xl/charts/", "xl/pivotTables/")) for member in members)
    notes = ["The workbook also holds images, charts or pivot tables, which are not shown."] if has_more else []
    return Document(f"workbook with {len(parts)} sheets: {names}", parts, notes)


def _build_part(sheet: Worksheet, computed: Worksheet, theme: Sequence[str]) -> Part:
    grid: dict[int, dict[int, str]] = {}  # row number → column number → text of the cell
    # The cells in the file: `iter_rows` would make 17 billion for one cell in the last corner.
    for (row, column), cell in sorted(sheet._cells.items()):
        if shown := _describe_cell(cell, computed, theme):
            grid.setdefault(row, {})[column] = shown
    used = {column for cells in grid.values() for column in cells}
    is_aligned = bool(used) and max(used) - min(used) < MAX_GRID_COLUMNS
    columns = range(min(used), max(used) + 1) if is_aligned else ()
    lines = []
    for row, cells in grid.items():
        texts = [f"{get_column_letter(column)}: {text}" for column, text in cells.items()]
        texts = [cells.get(column, "") for column in columns] if is_aligned else texts
        is_hidden = row in sheet.row_dimensions and sheet.row_dimensions[row].hidden
        lines.append(Line(row, " | ".join(texts) + (" [hidden row]" if is_hidden else "")))
    letters = ["row", *map(get_column_letter, columns)] if is_aligned else ["row", "cells with their column letters"]
    return Part(lines, sheet.title, f"{_describe_sheet(sheet)}\n{' | '.join(letters)}", numbered=True)


def _describe_cell(cell: Cell | MergedCell, computed: Worksheet, theme: Sequence[str]) -> str:
    value, marks = cell.value, [_describe_fill(cell, theme)]
    if cell.data_type == "f":
        formula, value = cell.value, computed[cell.coordinate].value
        if not isinstance(formula, str):  # that of an array or data table
            formula = f"{getattr(formula, 'text', None) or '=TABLE()'} over {getattr(formula, 'ref', 'its range')}"
        marks.insert(0, formula if value is not None else f"{formula}, result not stored in the file")
    if cell.comment:
        marks.append(f"comment: {cell.comment.text.strip()}")
    texts = [_format_value(value), *(f"[{mark}]" for mark in marks if mark)]
    return format_cell(" ".join(text for text in texts if text))


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return repr(float(f"{value:.15g}"))  # Excel itself keeps 15 digits
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return "" if value is None else str(value)


def _describe_sheet(sheet: Worksheet) -> str:
    hidden = sorted((found.min or 0, found.max or 0) for found in sheet.column_dimensions.values() if found.hidden)
    ranges = [(get_column_letter(first), get_column_letter(last)) for first, last in hidden if first]
    lists = {
        "merged": [str(area) for area in sheet.merged_cells.ranges],
        "hidden columns": [first if first == last else f"{first}-{last}" for first, last in ranges],
        "colours by conditional formatting, not shown, in": [str(area.sqref) for area in sheet.conditional_formatting],
    }
    facts = [f'sheet "{sheet.title}"', f"cells {sheet.dimensions}"]
    facts += ["hidden sheet"] if sheet.sheet_state != "visible" else []
    for label, items in lists.items():
        more = f" and {len(items) - MAX_LISTED} more" if len(items) > MAX_LISTED else ""
        facts += [f"{label} {', '.join(items[:MAX_LISTED])}{more}"] if items else []
    return "; ".join(facts)


def _describe_fill(cell: Cell | MergedCell, theme: Sequence[str]) -> str:
    kind = cell.fill.fill_type if cell.has_style else None
    if not kind:
        return ""
    colour = _find_argb(cell.fill.fgColor, theme) if hasattr(cell.fill, "fgColor") else "gradient"
    return f"fill {colour}" if kind == "solid" else f"fill {kind} {colour}"


def _list_theme_colours(workbook: Workbook) -> list[str]:
    """Return RGB by theme index, which has light colours before dark ones, unlike the file."""
    scheme = ElementTree.fromstring(workbook.loaded_theme or "<none/>").find(f".//{_SCHEME}")
    colours = [colour[0] for colour in scheme if len(colour)] if scheme is not None else []
    found = [colour.get("lastClr") or colour.get("val") or "000000" for colour in colours]
    return [found[place] for place in (1, 0, 3, 2, *range(4, len(found)))] if len(found) >= 4 else found


def _find_argb(colour: Color, theme: Sequence[str]) -> str:
    """Return eight hexadecimal digits; the first two are FF, since Excel ignores the opacity.

    The tint makes a colour darker (-1 is black) or lighter (1 is white).
    """
    tables = {"theme": theme, "indexed": COLOR_INDEX}
    number = int(colour.value) if colour.type in tables else 0
    if colour.type != "rgb" and number >= len(tables.get(colour.type, ())):
        return f"{colour.type} {colour.value}"
    rgb = str(colour.rgb if colour.type == "rgb" else tables[colour.type][number])[-6:]
    channels = tuple(int(rgb[start : start + 2], 16) / 255 for start in (0, 2, 4))
    if tint := float(colour.tint):
        hue, lightness, saturation = colorsys.rgb_to_hls(*channels)
        lightness = lightness * (1 + tint) if tint < 0 else lightness * (1 - tint) + tint
        channels = colorsys.hls_to_rgb(hue, lightness, saturation)
    return "FF" + "".join(f"{round(channel * 255):02X}" for channel in channels)
