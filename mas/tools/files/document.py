"""Text of a file as readers return it: named parts of numbered lines, which are then paged and searched.

Document("CSV table, 2 rows", [Part(heading="row | city", lines=[Line(1, "Rome"), Line(2, "Oslo")], numbered=True)])
"""

import io
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from mas.tools.files.tasks import Answer, Facts, pack, unpack

MAX_LINES = 2_000_000  # of one document; Excel's limit is 1,048,576 rows a sheet
MAX_CHARS = 100_000_000  # of one document; a file has at most half as many bytes
TOO_LONG = f"It is longer than {MAX_LINES} lines or {MAX_CHARS} characters: what is beyond them is not shown."


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
    numbered: bool = False  # a table's row numbers are always shown, a text's line numbers in a search or range


@dataclass(frozen=True)
class Document:
    """File as text."""

    summary: str  # one line: kind and size
    parts: list[Part]
    notes: list[str] = field(default_factory=list)  # guesses, and contents that are not shown
    unit: str = "sheet"  # noun for a named part; all but sheets are named by their numbers
    is_incomplete: bool = False  # a program that is not installed here could read more of it
    whole: list[Part] = field(default_factory=list)  # of a web page, with its menus; empty: `parts` is all of it

    def to_answer(self) -> Answer:
        """Return the packed document with its summary."""
        return Answer({"summary": self.summary}, self.pack())

    def pack(self) -> bytes:
        """Return the document in a compact form, as far as it is kept: up to MAX_LINES and MAX_CHARS."""
        kept = _limit(self)
        return pack({**vars(kept), "parts": _describe(kept.parts), "whole": _describe(kept.whole)})

    @classmethod
    def unpack(cls, packed: bytes) -> "Document":
        """Return the document that `pack` has packed."""
        values = unpack(packed)
        return cls(**{**values, "parts": _restore(values["parts"]), "whole": _restore(values["whole"])})


def _describe(parts: list[Part]) -> list[Facts]:
    return [vars(part) for part in parts]  # JSON has a line as a list of number and text


def _restore(parts: list[Facts]) -> list[Part]:
    return [Part(**{**part, "lines": [Line(number, text) for number, text in part["lines"]]}) for part in parts]


def _limit(document: Document) -> Document:
    """Return the document without the lines above the limits, and with a note if there are any."""
    lines = chars = 0
    parts: list[Part] = []
    for part in document.parts:
        kept = len(part.lines)
        for number, line in enumerate(part.lines):
            lines, chars = lines + 1, chars + len(line.text)
            if lines > MAX_LINES or chars > MAX_CHARS:
                kept = number
                break
        parts.append(part if kept == len(part.lines) else replace(part, lines=part.lines[:kept]))
    if lines <= MAX_LINES and chars <= MAX_CHARS:
        return document
    return replace(document, parts=parts, notes=[*document.notes, TOO_LONG])


def describe_count(lines: list[Line]) -> str:
    """Return the number of lines of a part in words; a reader stops after one line more than is kept."""
    return str(len(lines)) if len(lines) <= MAX_LINES else f"more than {MAX_LINES}"


def number_lines(texts: Iterable[str]) -> list[Line]:
    """Return the texts as lines numbered from 1."""
    return [Line(number, text) for number, text in enumerate(texts, start=1)]


def number_parts(unit: str, texts: list[list[str]]) -> list[Part]:
    """Return one part for each page, slide or chapter, named by its number from 1."""
    return [
        Part(number_lines(lines), str(number), f"[{unit} {number} of {len(texts)}]")
        for number, lines in enumerate(texts, start=1)
    ]


@dataclass(frozen=True)
class Source:
    """Name and bytes of a file."""

    name: str  # for messages: the attachment's bare name, or "data.zip: tables/x.csv"
    data: bytes

    @classmethod
    def read(cls, path: Path) -> "Source":
        """Read a file."""
        with path.open("rb") as file:
            return cls(path.name, file.read())

    @property
    def suffix(self) -> str:
        """Extension with its dot, in lower case."""
        return PurePosixPath(self.name).suffix.lower()

    def open(self) -> io.BytesIO:
        """Return the bytes as a file."""
        return io.BytesIO(self.data)
