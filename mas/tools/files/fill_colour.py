"""The colour behind a cell. Excel stores it as RGB, as an index, or as a place in the workbook's theme and a tint.

Source: ECMA-376 part 1, 18.8.3 (bgColor: theme, tint) and 20.1.6.2 (clrScheme).

    FillColours(workbook).of(cell)       # "fill FFFF0000", or "" for a cell without a fill
"""

import colorsys
from xml.etree import ElementTree

from openpyxl.cell.cell import Cell, MergedCell
from openpyxl.styles.colors import COLOR_INDEX, Color
from openpyxl.workbook.workbook import Workbook

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
