"""Paging of long content, so that no observation fills the model's context, and search in it.

split_pages([Part([Line(1, "a"), Line(2, "b")])])     # ["a\\nb"]
show_file(document, "towns.csv", "towns.csv", search="rome")[0]
# "towns.csv: table with 2 columns …; lines that contain 'rome': 1; page 1 of 1 …"
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mas.runtime.text import replace_surrogates
from mas.tools.files.document import Document, Line, Part
from mas.tools.results import ToolError

MAX_PAGE_CHARS = 12_000  # of one observation, its header included
MAX_HEADER_CHARS = 2_500  # above the content
MAX_HEADING_CHARS = 2_500  # of a part
MAX_PIECE_CHARS = 4_000  # a longer line is split: JSON in one line, base64
_BODY_CHARS = MAX_PAGE_CHARS - MAX_HEADER_CHARS


def split_pages(parts: Sequence[Part]) -> list[str]:
    """Return the parts as pages; every line is on exactly one page, a part's heading on each of its pages."""
    pages: list[list[str]] = [[]]
    room = _BODY_CHARS
    for part in parts:
        heading = [clip(part.heading, MAX_HEADING_CHARS)] if part.heading else []
        opening = heading
        for piece in _pieces(part):
            block = [*opening, piece]
            if sum(len(text) + 1 for text in block) > room and pages[-1]:
                pages.append([])
                block, room = [*heading, piece], _BODY_CHARS
            pages[-1] += block
            room -= sum(len(text) + 1 for text in block)
            opening = []
    return ["\n".join(page) for page in pages]


def lay_out(
    parts: Sequence[Part],
    page: int,
    described: str,
    search: str,
    more: str,
    notes: Sequence[str],
    whole: Sequence[Part] = (),
) -> tuple[str, int]:
    """Return one page of the parts, or of their lines that match a search, below a header; and where it begins.

    Args:
        described: what it is, for the header's first line.
        more: further ways to see the rest.
        notes: further lines of the header.
        whole: what a search goes through that finds nothing in the parts.

    Raises:
        ToolError: there is no such page.
    """
    first = [clip(described, MAX_HEADER_CHARS // 2)]
    if search:
        found, count = search_lines(parts, search)
        parts, count = (found, count) if count or not whole else search_lines(whole, search)
        first.append(f"lines that contain {clip(search, 200)!r}: {count}")
    pages = split_pages(parts) if parts else ["(no line to show; try a shorter or another search)"]
    if not 1 <= page <= len(pages):
        raise ToolError(f"There is no page {page}: there are the pages 1 to {len(pages)} for this call.")
    first.append(f"page {page} of {len(pages)}" + (f"; the rest: page={page + 1}{more}" if page < len(pages) else ""))
    header = clip("\n".join(["; ".join(first), *notes]), MAX_HEADER_CHARS - 10)
    return clean_text(f"{header}\n\n{pages[page - 1]}"), len(header) + 2


def clean_text(text: str) -> str:
    """Replace lone surrogates and NUL, which prompts and databases do not take; no position changes."""
    return replace_surrogates(text.replace("\x00", "\ufffd"))


def clip(text: str, limit: int) -> str:
    """Return at most `limit` characters; a cut says how many are missing."""
    if len(text) <= limit:
        return text
    kept = limit - 40
    return f"{text[:kept]}… ({len(text) - kept} more characters)"


def _pieces(part: Part) -> Iterator[str]:
    if not part.lines:
        yield "(empty)"
    for line in part.lines:
        text = f"{line.number} | {line.text}" if part.numbered else line.text
        for start in range(0, max(len(text), 1), MAX_PIECE_CHARS):
            yield text[start : start + MAX_PIECE_CHARS] + ("…" if start + MAX_PIECE_CHARS < len(text) else "")


_LINE_MARK = re.compile(r"^[> ] \d+ \| ", re.MULTILINE)  # of `search_lines`
CONTEXT_LINES = 2
NO_SHEETS = "It has no sheets: `sheet` was left out."
MAX_LINE_CHARS = 1_000  # of a longer line only the text around the matches is shown
AROUND_CHARS = 200


def search_lines(parts: Sequence[Part], wanted: str) -> tuple[list[Part], int]:
    """Return the matching lines (marked `>`) with their context, and the number of matches; case is ignored."""
    pattern = re.compile(re.escape(wanted), re.IGNORECASE)
    found, count = [], 0
    for part in parts:
        hits = {position for position, line in enumerate(part.lines) if pattern.search(line.text)}
        near = {hit + step for hit in hits for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1)}
        shown, count = list[Line](), count + len(hits)
        previous = None
        for position in sorted(near & set(range(len(part.lines)))):
            number, text = part.lines[position]
            if previous is not None and position > previous + 1:
                shown.append(Line(number, "--"))
            mark = ">" if position in hits else " "
            shown.append(Line(number, f"{mark} {number} | {_shorten(text, pattern)}"))
            previous = position
        if hits:
            found.append(replace(part, lines=shown, numbered=False))
    return found, count


def remove_line_marks(text: str) -> str:
    """Return the lines of a search without their numbers and marks."""
    return _LINE_MARK.sub("", text)


def _shorten(text: str, pattern: re.Pattern[str]) -> str:
    """Return of a long line the text around its matches."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    windows: list[tuple[int, int]] = []
    for match in pattern.finditer(text):
        start, end = max(0, match.start() - AROUND_CHARS), match.end() + AROUND_CHARS
        if windows and start <= windows[-1][1]:
            start, _ = windows.pop()
        windows.append((start, end))
    return "… " + " … ".join(text[start:end] for start, end in windows or [(0, MAX_LINE_CHARS)]) + " …"


def show_file(
    document: Document, file: str, name: str, sheet: str = "", page: int = 1, search: str = ""
) -> tuple[str, int]:
    """Return one page of an attachment, and the position at which its content begins; arguments as of `read_file`.

    Args:
        name: of the file or of its member, for the header.

    Raises:
        ToolError: there is no such sheet or page.
    """
    notes = list(document.notes)
    if sheet and not any(part.name for part in document.parts):
        sheet = ""
        notes.append(NO_SHEETS)
    parts = _choose_parts(document, file, sheet) if sheet else document.parts
    more = "" if search else ', or search="some text" for matching lines alone'
    more += "" if document.unit == "sheet" else f', or sheet="3-5" for some {document.unit}s'
    return lay_out(parts, page, f"{name}: {document.summary}", search, more, notes)


def _choose_parts(document: Document, file: str, sheet: str) -> list[Part]:
    """Return sheets by name; pages, slides or chapters by number: "4", "page 4" or "3-5"."""
    unit, count = document.unit, len(document.parts)
    names = [part.name for part in document.parts if part.name]
    if unit != "sheet":
        found = re.fullmatch(f"(?:{unit}s? ?)?([0-9]{{1,9}})(?: ?[-\u2013] ?([0-9]{{1,9}}))?", sheet, re.IGNORECASE)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if 1 <= first <= last <= count:
            return document.parts[first - 1 : last]
        raise ToolError(
            f"{file} has the {unit}s 1 to {count}; give `sheet` one of these numbers or a range such as "
            f'"1-{count}", not {clip(repr(sheet), 100)}.'
        )
    chosen = [part for part in document.parts if part.name == sheet]
    chosen = chosen or [part for part in document.parts if part.name.strip().casefold() == sheet.casefold()]
    if not chosen:
        raise ToolError(f"No sheet of {file} is named {sheet!r}; its sheets: {clip(repr(names)[1:-1], 2_000)}.")
    return chosen
