"""What a reader makes of a file: named parts of numbered lines. Paging and searching know nothing else.

Document("CSV table, 2 rows", [Part(heading="row | city", lines=[Line(1, "Rome"), Line(2, "Oslo")], numbered=True)])
"""

import io
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple


class Line(NamedTuple):
    """One line of text or one row of a table; `number` counts from 1 as the file's own program would show it."""

    number: int
    text: str


@dataclass(frozen=True)
class Part:
    """A whole text, one sheet of a workbook, or one page, slide or chapter."""

    lines: list[Line]
    name: str = ""  # what `sheet=` selects: a sheet's name or a page's number; empty: a file of one part
    heading: str = ""  # repeated on every page that shows lines of this part
    numbered: bool = False  # a table's row numbers are always shown, a text's line numbers in a search or range


@dataclass(frozen=True)
class Document:
    """A file as text. `summary` is one line: its kind and size."""

    summary: str
    parts: list[Part]
    notes: list[str] = field(default_factory=list)  # what was guessed, or is in the file and not shown
    unit: str = "sheet"  # what a named part is called; all but sheets are named by their numbers
    is_incomplete: bool = False  # a program that is not installed here could read more of it

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` makes the document again."""
        return asdict(self)

    @classmethod
    def from_dict(cls, made: dict[str, Any]) -> "Document":
        parts = [Part(**{**part, "lines": [Line(*line) for line in part["lines"]]}) for part in made["parts"]]
        return cls(**{**made, "parts": parts})


def number_parts(unit: str, texts: list[list[str]]) -> list[Part]:
    """One part for each page, slide or chapter, called by its number from 1."""
    return [
        Part(
            [Line(n, line) for n, line in enumerate(lines, start=1)], str(number), f"[{unit} {number} of {len(texts)}]"
        )
        for number, lines in enumerate(texts, start=1)
    ]


@dataclass(frozen=True)
class Source:
    name: str  # for messages: the attachment's bare name, or "data.zip: tables/x.csv"
    data: bytes

    @classmethod
    def of(cls, path: Path) -> "Source":
        with path.open("rb") as file:
            return cls(path.name, file.read())

    @property
    def suffix(self) -> str:
        """With its dot, in lower case."""
        return PurePosixPath(self.name).suffix.lower()

    def stream(self) -> io.BytesIO:
        return io.BytesIO(self.data)
