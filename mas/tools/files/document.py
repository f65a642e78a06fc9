"""What a reader makes of a file: named parts of numbered lines. Paging and searching know nothing else.

Document("CSV table, 2 rows", [Part(heading="row | city", lines=[Line(1, "Rome"), Line(2, "Oslo")], numbered=True)])
"""

from dataclasses import dataclass, field
from typing import NamedTuple


class Line(NamedTuple):
    """One line of text or one row of a table; `number` counts from 1 as the file's own program would show it."""

    number: int
    text: str


@dataclass(frozen=True)
class Part:
    """A whole text, or one sheet of a workbook."""

    lines: list[Line]
    name: str = ""  # what `sheet=` selects; empty: the file has one part without a name
    heading: str = ""  # repeated on every page that shows lines of this part
    numbered: bool = False  # a table's row numbers are always shown, a text's line numbers only in a search


@dataclass(frozen=True)
class Document:
    """A file as text. `summary` is one line: its kind and size."""

    summary: str
    parts: list[Part]
    notes: list[str] = field(default_factory=list)  # what was guessed, or is in the file and not shown
