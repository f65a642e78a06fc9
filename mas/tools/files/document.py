"""Text of a file: named parts of numbered lines, which are paged and searched here."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from mas.runtime.text import replace_surrogates
from mas.tools.results import ToolError

MAX_LINES = 200_000  # of one document, which the run holds in memory
MAX_CHARS = 10_000_000
TOO_LONG = f"It is longer than {MAX_LINES} lines or {MAX_CHARS} characters: what is beyond them is not shown."
MAX_PAGE_CHARS = 12_000  # of one observation, its header included
MAX_HEADER_CHARS = 2_500  # above the content
MAX_HEADING_CHARS = 2_500  # of a part
MAX_PIECE_CHARS = 4_000  # a longer line is split: base64, XML in one line
_BODY_CHARS = MAX_PAGE_CHARS - MAX_HEADER_CHARS
_LINE_MARK = re.compile(r"^[> ] \d+ \| ", re.MULTILINE)  # of `search_lines`
CONTEXT_LINES = 2
MAX_LINE_CHARS = 1_000  # of a longer line only the text around the matches is shown
AROUND_CHARS = 200


class Line(NamedTuple):
    """One line of text or one row of a table."""

    number: int  # from 1, as the file's own program shows it
    text: str


@dataclass(frozen=True)
class Part:
    """Whole text, one sheet of a workbook, or one page, slide or chapter."""

    lines: list[Line]
    name: str = ""  # value of `sheet=`: a sheet's name or a page's number; empty: the only part
    heading: str = ""  # repeated on every page that shows lines of this part
    numbered: bool = False  # a table's row numbers are always shown, a text's line numbers in a search


@dataclass(frozen=True)
class Document:
    """File as text."""

    summary: str  # one line: kind and size
    parts: list[Part]
    notes: list[str] = field(default_factory=list)  # guesses, and contents that are not shown
    unit: str = "sheet"  # noun for a named part; all but sheets are named by their numbers
    whole: list[Part] = field(default_factory=list)  # of a web page, with menus; empty: all is in `parts`

    def limit(self) -> "Document":
        """Return the document without what is above the limits, and with a note if there is any."""
        lines, chars, parts = MAX_LINES, MAX_CHARS, list[Part]()
        for part in self.parts:
            kept = list[Line]()
            for number, text in part.lines[:lines]:
                if chars > 0:
                    kept.append(Line(number, text[:chars]))
                    chars -= len(text)
            lines -= len(kept)
            parts.append(replace(part, lines=kept))
        return self if parts == self.parts else replace(self, parts=parts, notes=[*self.notes, TOO_LONG])

    def to_facts(self) -> dict[str, Any]:
        """Return the document as values for JSON."""
        return {**vars(self), "parts": [*map(vars, self.parts)], "whole": [*map(vars, self.whole)]}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> "Document":
        def restore(part: dict[str, Any]) -> Part:
            return Part(**{**part, "lines": [Line(*line) for line in part["lines"]]})

        return cls(**{**facts, **{name: [*map(restore, facts[name])] for name in ("parts", "whole")}})


def number_lines(texts: Iterable[str]) -> list[Line]:
    return [Line(number, text) for number, text in enumerate(texts, start=1)]


def number_parts(unit: str, texts: list[list[str]]) -> list[Part]:
    """Return one part for each page, slide or chapter, named by its number from 1."""
    return [
        Part(number_lines(lines), str(number), f"[{unit} {number} of {len(texts)}]")
        for number, lines in enumerate(texts, start=1)
    ]


def format_row(cells: Iterable[str]) -> str:
    """Return cells as one line, whatever they contain."""
    return " | ".join(map(format_cell, cells))


def format_cell(text: str) -> str:
    """Return the text with the characters escaped that separate cells and rows."""
    return text.replace("|", r"\|").replace("\r\n", r"\n").replace("\n", r"\n").replace("\r", r"\n")


@dataclass(frozen=True)
class Source:
    """Name and bytes of a file."""

    name: str  # for messages: the attachment's bare name, or "data.zip: tables/x.csv"
    data: bytes

    @property
    def suffix(self) -> str:
        """Extension with its dot, in lower case."""
        return PurePosixPath(self.name).suffix.lower()

    def open(self) -> io.BytesIO:
        return io.BytesIO(self.data)


def split_pages(parts: Sequence[Part]) -> list[str]:
    """Return the parts as pages; a line is on one page, a part's heading on each of its pages."""
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


def _pieces(part: Part) -> Iterator[str]:
    if not part.lines:
        yield "(empty)"
    for number, line in part.lines:
        text = f"{number} | {line}" if part.numbered else line
        for start in range(0, max(len(text), 1), MAX_PIECE_CHARS):
            yield text[start : start + MAX_PIECE_CHARS] + ("…" if start + MAX_PIECE_CHARS < len(text) else "")


def lay_out(document: Document, described: str, page: int, search: str) -> tuple[str, int]:
    """Return one page of a document, or of its lines that match a search; and where it begins.

    A search that finds nothing in the parts goes through the whole.
    """
    parts, first, more = document.parts, [clip(described, MAX_HEADER_CHARS // 2)], ""
    if search:
        found, count = search_lines(parts, search)
        parts, count = (found, count) if count or not document.whole else search_lines(document.whole, search)
        first.append(f"lines that contain {clip(search, 200)!r}: {count}")
    else:
        more = ', or search="some text" for matching lines alone'
    pages = split_pages(parts) if parts else ["(no line to show; try a shorter or another search)"]
    if not 1 <= page <= len(pages):
        raise ToolError(f"There is no page {page}: there are the pages 1 to {len(pages)} for this call.")
    more += "" if document.unit == "sheet" else f', or sheet="3-5" for some {document.unit}s'
    first.append(f"page {page} of {len(pages)}" + (f"; the rest: page={page + 1}{more}" if page < len(pages) else ""))
    header = clip("\n".join(["; ".join(first), *document.notes]), MAX_HEADER_CHARS - 10)
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


def search_lines(parts: Sequence[Part], wanted: str) -> tuple[list[Part], int]:
    """Return the matching lines (`>`) with their context, and their number; case is ignored."""
    pattern = re.compile(re.escape(wanted), re.IGNORECASE)
    found, count = [], 0
    for part in parts:
        hits = {position for position, line in enumerate(part.lines) if pattern.search(line.text)}
        near = {hit + step for hit in hits for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1)}
        shown, count = list[Line](), count + len(hits)
        for position in sorted(near & set(range(len(part.lines)))):
            number, text = part.lines[position]
            if shown and position - 1 not in near:
                shown.append(Line(number, "--"))
            shown.append(Line(number, f"{'>' if position in hits else ' '} {number} | {_shorten(text, pattern)}"))
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
