"""Views of a file: one page of its text, of some sheets or pages, of a range of lines, or of what a search finds.

show_file(document.pack(), {"file": "towns.csv", "search": "rome", "page": 1, …}).facts["text"]
# "towns.csv: table with 2 columns …; lines that contain 'rome': 1; page 1 of 1 …"
"""

import re
from collections.abc import Mapping
from typing import Any

from mas.tools.files.document import Answer, Document, Part
from mas.tools.files.paging import clip, lay_out, search_lines, select_lines
from mas.tools.results import ToolError


def show_file(packed: bytes, wanted: Mapping[str, Any]) -> Answer:
    """Return one page of an attachment, with the arguments of `read_file`.

    Raises:
        ToolError: there is no such sheet, page or line.
    """
    document, file, name, page = Document.unpack(packed), wanted["file"], wanted["name"], wanted["page"]
    parts = _choose_parts(document, file, wanted["sheet"])
    parts, found = _filter_lines(parts, name, document.unit, wanted["lines"], wanted["search"])
    more = "" if found else ', or search="some text" or lines="100-140" for some lines alone'
    more += "" if document.unit == "sheet" else f', or sheet="3-5" for some {document.unit}s'
    text, start = lay_out(parts, page, f"{name}: {document.summary}", found, more, document.notes)
    return Answer({"text": text, "start": start, "is_incomplete": document.is_incomplete})


def _choose_parts(document: Document, file: str, sheet: str) -> list[Part]:
    names = [part.name for part in document.parts if part.name]
    if not sheet:
        return document.parts
    if not names:
        raise ToolError(f"{file} has no sheets; call read_file again without `sheet`.")
    if document.unit != "sheet":
        return _choose_range(document, file, sheet)
    chosen = [part for part in document.parts if part.name == sheet]
    chosen = chosen or [part for part in document.parts if part.name.strip().casefold() == sheet.casefold()]
    if not chosen:
        raise ToolError(f"No sheet of {file} is named {sheet!r}; its sheets: {clip(repr(names)[1:-1], 2_000)}.")
    return chosen


def _choose_range(document: Document, file: str, wanted: str) -> list[Part]:
    """Return pages, slides or chapters by number: "4", "page 4" or "3-5"."""
    found = re.fullmatch(rf"(?:{document.unit}s? ?)?(\d{{1,6}})(?: ?[-\u2013] ?(\d{{1,6}}))?", wanted, re.IGNORECASE)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= len(document.parts):
        raise ToolError(
            f"{file} has the {document.unit}s 1 to {len(document.parts)}; give `sheet` one of these numbers or a range "
            f'such as "1-{len(document.parts)}", not {clip(repr(wanted), 100)}.'
        )
    return document.parts[first - 1 : last]


def _filter_lines(parts: list[Part], file: str, unit: str, numbers: str, wanted: str) -> tuple[list[Part], str]:
    """Return the parts with the lines of a range that match a search, and a description of them."""
    found = []
    if numbers:
        parts, words = select_lines(parts, numbers, file, unit)
        found.append(words)
    if wanted:
        parts, count = search_lines(parts, wanted)
        found.append(f"lines that contain {clip(wanted, 200)!r}: {count}")
    return parts, "; ".join(found)
