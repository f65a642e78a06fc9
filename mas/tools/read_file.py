"""Tool that reads an attached file as text: page by page, a range of lines, or the lines that match a search.

with use_attachments([Path("/data/towns.csv")]):
    read_file("towns.csv")                     # "towns.csv: table with 2 columns and 12 rows …"
    read_file("towns.csv", search="rome")      # the matching rows, two rows around each
    read_file("towns.csv", lines="100-140")    # these rows
    read_file("data.zip", member="a/b.csv")    # a member of an archive
"""

import re

from mas.runtime.untrusted import mark_untrusted
from mas.tools.attachments import AttachmentNotFoundError, find_attachment
from mas.tools.files.document import Document, Part
from mas.tools.files.kinds import read_document
from mas.tools.files.paging import MAX_HEADER_CHARS, clip, search_lines, select_lines, split_pages
from mas.tools.read_only import mark_read_only
from mas.tools.results import Excerpt, ToolError, ToolResult

_SURROGATES = re.compile("[\ud800-\udfff]")  # UTF-8 cannot encode them


@mark_untrusted
@mark_read_only
def read_file(
    file: str,
    sheet: str | int | None = None,
    page: int = 1,
    search: str | None = None,
    member: str | None = None,
    lines: str | int | None = None,
) -> ToolResult:
    """Read a file that is attached to the question and return its content as text.

    Reads Excel workbooks (values, formulas, fill colours, comments, hidden and merged cells), Word, PowerPoint (with
    notes), PDF (with tables), e-books, web pages, XML, CSV, TSV, JSON, JSON Lines, any plain text or source code, the
    members of zip archives, the text in pictures, and what a sound file's header says.

    file: the bare name of the attached file, such as "sales.xlsx", never a path.
    sheet: the name of one sheet of a workbook; of a PDF, presentation or e-book the number of a page, slide or chapter,
    or a range such as "3-5"; without it all are shown.
    page: long content comes in pages, counted from 1; the first line of the answer says how many there are.
    search: return only the lines or rows that contain this text (upper or lower case), with two lines around each.
    member: the name of one file in a zip archive, as the archive's own listing shows it; it is read as a file is.
    lines: return only these lines, or rows as they are numbered in a table: "7" or "100-140"; of a workbook, PDF,
    presentation or e-book of each sheet, page, slide or chapter, so give `sheet` too; `search` looks in them alone.
    """
    document = _read_attachment(file, _to_text(member) or None)
    name = f"{file}: {member}" if member else file
    parts = _choose_parts(document, file, _to_text(sheet))
    parts, found = _filter_lines(parts, name, document.unit, _to_text(lines), _to_text(search))
    pages = split_pages(parts) if parts else ["(no line to show; try a shorter or another search)"]
    if not 1 <= page <= len(pages):
        raise ToolError(f"There is no page {page}: {file} has the pages 1 to {len(pages)} for this call.")
    header = _format_header(name, document, found, page, len(pages))
    text = _SURROGATES.sub("\ufffd", f"{header}\n\n{pages[page - 1]}")
    shown = Excerpt(name, document.summary, len(header) + 2, len(text), has_line_marks=bool(search))
    return ToolResult(text, kind="file", excerpts=[shown], is_temporary=document.is_incomplete)


def _to_text(given: str | int | None) -> str:
    """Return the argument as text: a model may give a number for a name or a range."""
    return "" if given is None else str(given).strip()


def _read_attachment(file: str, member: str | None) -> Document:
    try:
        return read_document(find_attachment(file), member)
    except AttachmentNotFoundError as error:
        raise ToolError(f"{error}; give one of these names without a path.") from error


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
