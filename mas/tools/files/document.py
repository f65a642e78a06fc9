"""Text of a file as readers return it: named parts of numbered lines, which are then paged and searched.

Document("CSV table, 2 rows", [Part(heading="row | city", lines=[Line(1, "Rome"), Line(2, "Oslo")], numbered=True)])
"""

import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

DocumentJson = dict[str, Any]


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

    def to_json(self) -> DocumentJson:
        """Return the document as values for JSON, which `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: DocumentJson) -> "Document":
        """Return the document that `to_json` has described."""
        parts = [Part(**{**part, "lines": [Line(*line) for line in part["lines"]]}) for part in values["parts"]]
        return cls(**{**values, "parts": parts})


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
