"""Text of a file as readers return it: named parts of numbered lines, which are then paged and searched.

Document("CSV table, 2 rows", [Part([Line(1, "Rome"), Line(2, "Oslo")], heading="row | city", numbered=True)])
"""

import io
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

MAX_LINES = 200_000  # of one document, which the run holds in memory
MAX_CHARS = 10_000_000
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
    numbered: bool = False  # a table's row numbers are always shown, a text's line numbers in a search


@dataclass(frozen=True)
class Document:
    """File as text."""

    summary: str  # one line: kind and size
    parts: list[Part]
    notes: list[str] = field(default_factory=list)  # guesses, and contents that are not shown
    unit: str = "sheet"  # noun for a named part; all but sheets are named by their numbers
    whole: list[Part] = field(default_factory=list)  # of a web page, with its menus; empty: `parts` is all of it

    def limit(self) -> "Document":
        """Return the document without what is above the limits, and with a note if there is any."""
        lines, chars, parts = MAX_LINES, MAX_CHARS, list[Part]()
        for part in self.parts:
            kept = list[Line]()
            for line in part.lines[:lines]:
                if chars <= 0:
                    break
                kept.append(line._replace(text=line.text[:chars]))
                chars -= len(line.text)
            lines -= len(kept)
            parts.append(replace(part, lines=kept))
        return self if parts == self.parts else replace(self, parts=parts, notes=[*self.notes, TOO_LONG])

    def to_facts(self) -> dict[str, Any]:
        """Return the document as values for JSON."""
        return {**vars(self), "parts": [*map(vars, self.parts)], "whole": [*map(vars, self.whole)]}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> "Document":
        """Return the document that `to_facts` has described."""

        def restore(part: dict[str, Any]) -> Part:
            return Part(**{**part, "lines": [Line(*line) for line in part["lines"]]})

        return cls(**{**facts, **{name: [*map(restore, facts[name])] for name in ("parts", "whole")}})


def number_lines(texts: Iterable[str]) -> list[Line]:
    """Return the texts as lines numbered from 1."""
    return [Line(number, text) for number, text in enumerate(texts, start=1)]


def number_parts(unit: str, texts: list[list[str]]) -> list[Part]:
    """Return one part for each page, slide or chapter, named by its number from 1."""
    return [
        Part(number_lines(lines), str(number), f"[{unit} {number} of {len(texts)}]")
        for number, lines in enumerate(texts, start=1)
    ]


def format_row(cells: Iterable[str]) -> str:
    """Return cells as one line, whatever they contain."""
    return " | ".join(format_cell(text) for text in cells)


def format_cell(text: str) -> str:
    """Return the text with the characters escaped that separate cells and rows."""
    return text.replace("|", r"\|").replace("\r\n", r"\n").replace("\n", r"\n").replace("\r", r"\n")


@dataclass(frozen=True)
class Source:
    """Name and bytes of a file."""

    name: str  # for messages: the attachment's bare name, or "data.zip: tables/x.csv"
    data: bytes
    is_member: bool = False  # of an archive

    @property
    def suffix(self) -> str:
        """Extension with its dot, in lower case."""
        return PurePosixPath(self.name).suffix.lower()

    def open(self) -> io.BytesIO:
        """Return the bytes as a file."""
        return io.BytesIO(self.data)
