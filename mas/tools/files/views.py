"""Views of a file: one page of its text, of some sheets or pages, of a range of lines, or of what a search finds.

show_file(document.pack(), {"file": "towns.csv", "search": "rome", "page": 1, …}).facts["text"]
# "towns.csv: table with 2 columns …; lines that contain 'rome': 1; page 1 of 1 …"
"""

import re
from collections.abc import Mapping
from typing import Any

from mas.tools.files.document import Document, Part
from mas.tools.files.paging import MAX_HEADER_CHARS, clip, search_lines, select_lines, split_pages
from mas.tools.files.tasks import Answer
from mas.tools.results import ToolError

_SURROGATES = re.compile("[\ud800-\udfff]")  # UTF-8 cannot encode them


def show_file(packed: bytes, wanted: Mapping[str, Any]) -> Answer:
    """Return one page of an attachment, with the arguments of `read_file`.

    Raises:
        ToolError: there is no such sheet, page or line.
    """
    document, file, name, page = Document.unpack(packed), wanted["file"], wanted["name"], wanted["page"]
    parts = _choose_parts(document, file, wanted["sheet"])
    parts, found = _filter_lines(parts, name, document.unit, wanted["lines"], wanted["search"])
    pages = split_pages(parts) if parts else ["(no line to show; try a shorter or another search)"]
    if not 1 <= page <= len(pages):
        raise ToolError(f"There is no page {page}: {file} has the pages 1 to {len(pages)} for this call.")
    header = _format_header(name, document, found, page, len(pages))
    text = _SURROGATES.sub("\ufffd", f"{header}\n\n{pages[page - 1]}")
    return Answer({"text": text, "start": len(header) + 2, "is_incomplete": document.is_incomplete})


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


def _format_header(file: str, document: Document, found: str, page: int, pages: int) -> str:
    rest = f"page {page} of {pages}"
    if page < pages:
        rest += f"; the rest: page={page + 1}"
        rest += "" if found else ', or search="some text" or lines="100-140" for some lines alone'
        rest += "" if document.unit == "sheet" else f', or sheet="3-5" for some {document.unit}s'
    summary = clip(document.summary, MAX_HEADER_CHARS // 2)
    first = "; ".join(text for text in (f"{file}: {summary}", found, rest) if text)
    return clip("\n".join([first, *document.notes]), MAX_HEADER_CHARS - 10)
