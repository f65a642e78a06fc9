"""Text of a file as readers return it: named parts of numbered lines, which are then paged and searched.

A task is a function of foreign bytes and arguments, named as `module:function` and done in the reader process or, for a
small input, in this one. It returns facts, which the run reads, and possibly packed values, such as a document, which
the run keeps and hands to the next task without looking into them.

Document("CSV table, 2 rows", [Part(heading="row | city", lines=[Line(1, "Rome"), Line(2, "Oslo")], numbered=True)])
run_task("mas.tools.files.kinds:read_source", b"a,b", {"name": "a.csv", "member": None, …}).facts["summary"]
"""

import importlib
import io
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from mas.tools.results import ToolError

MAX_PACKED_BYTES = 64 * 1024 * 1024  # of one document, as the run keeps it
MAX_UNPACKED_BYTES = 700 * 1024 * 1024
SMALL_BYTES = 8 * 1024  # of an input that is parsed in this process if its kind is simple; nested JSON grows 900-fold
SMALL_PACKED_BYTES = 16 * 1024  # of a document that is paged and searched in this process: about 100 kB of text
TOO_MUCH = "{name} took more time or memory than a file may, and is not read; go on without it."

Facts = dict[str, Any]  # values for JSON
Arguments = Mapping[str, object]  # values for JSON, with the `name` that messages give the bytes
Task = Callable[[bytes, Any], "Answer"]

MAX_LINES = 2_000_000  # of one document; Excel's limit is 1,048,576 rows a sheet
MAX_CHARS = 100_000_000  # of one document; a file has at most half as many bytes
TOO_LONG = f"It is longer than {MAX_LINES} lines or {MAX_CHARS} characters: what is beyond them is not shown."


class Answer(NamedTuple):
    """Result of a task."""

    facts: Facts
    packed: bytes = b""


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


def run_task(task: str, data: bytes, arguments: Arguments) -> Answer:
    """Run a task in this process.

    Raises:
        ToolError: the bytes cannot be read.
    """
    module, _, function = task.partition(":")
    run: Task = getattr(importlib.import_module(module), function)
    return run(data, arguments)


def pack(value: object) -> bytes:
    """Return values for JSON in a compact form.

    Raises:
        ToolError: they are too large to be kept.
    """
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    packed = zlib.compress(text, 1)
    if len(packed) > MAX_PACKED_BYTES or len(text) > MAX_UNPACKED_BYTES:
        raise ToolError(f"The text in it has more than {MAX_UNPACKED_BYTES} bytes; it is not read.")
    return packed


def unpack(packed: bytes) -> Any:
    """Return the values that `pack` was given."""
    text = zlib.decompressobj().decompress(packed, MAX_UNPACKED_BYTES)
    return json.loads(text.decode("utf-8", "surrogatepass"))
