"""The tool that shows an attached file as text: one page at a time, or the lines that match a search.

with attached([Path("/data/towns.csv")]):
    read_file("towns.csv")                     # "towns.csv: table with 2 columns and 12 rows …"
    read_file("towns.csv", search="rome")      # the matching rows, two rows around each
"""

import re

from mas.tools.attachments import AttachmentNotFoundError, resolve
from mas.tools.errors import ToolError
from mas.tools.files.document import Document, Part
from mas.tools.files.kinds import read_document
from mas.tools.files.pages import MAX_HEADER_CHARS, clipped, pages_of
from mas.tools.files.search import matching
from mas.tools.read_only import read_only

_SURROGATES = re.compile("[\ud800-\udfff]")  # cannot be sent as utf-8


@read_only
def read_file(file: str, sheet: str | None = None, page: int = 1, search: str | None = None) -> str:
    """Read a file that is attached to the question and return its content as text.

    Reads Excel workbooks (values, formulas, fill colours, comments, hidden and merged cells), CSV, TSV, JSON,
    JSON Lines and any plain text or source code.

    file: the bare name of the attached file, such as "sales.xlsx", never a path.
    sheet: the name of one sheet of a workbook; without it all sheets are shown.
    page: long content comes in pages, counted from 1; the first line of the answer says how many there are.
    search: return only the lines or rows that contain this text (upper or lower case), with two lines around each.
    """
    document = _attached_document(file)
    parts = _chosen(document, file, (sheet or "").strip())
    found = ""
    if wanted := (search or "").strip():
        parts, count = matching(parts, wanted)
        found = f"lines that contain {clipped(wanted, 200)!r}: {count}"
    pages = pages_of(parts) if parts else ["(no line to show; try a shorter or another search)"]
    if not 1 <= page <= len(pages):
        raise ToolError(f"There is no page {page}: {file} has the pages 1 to {len(pages)} for this call.")
    header = _header(file, document, found, page, len(pages))
    return _SURROGATES.sub("\ufffd", f"{header}\n\n{pages[page - 1]}")


def _attached_document(file: str) -> Document:
    try:
        return read_document(resolve(file))
    except AttachmentNotFoundError as error:
        raise ToolError(f"{error}; give one of these names without a path.") from error


def _chosen(document: Document, file: str, sheet: str) -> list[Part]:
    names = [part.name for part in document.parts if part.name]
    if not sheet:
        return document.parts
    if not names:
        raise ToolError(f"{file} has no sheets; call read_file again without `sheet`.")
    chosen = [part for part in document.parts if part.name == sheet]
    chosen = chosen or [part for part in document.parts if part.name.strip().casefold() == sheet.casefold()]
    if not chosen:
        raise ToolError(f"No sheet of {file} is named {sheet!r}; its sheets: {clipped(repr(names)[1:-1], 2_000)}.")
    return chosen


def _header(file: str, document: Document, found: str, page: int, pages: int) -> str:
    rest = f"page {page} of {pages}"
    if page < pages:
        rest += f"; the rest: page={page + 1}" + ("" if found else ', or search="some text" for matching lines alone')
    summary = clipped(document.summary, MAX_HEADER_CHARS // 2)
    first = "; ".join(text for text in (f"{file}: {summary}", found, rest) if text)
    return clipped("\n".join([first, *document.notes]), MAX_HEADER_CHARS - 10)
