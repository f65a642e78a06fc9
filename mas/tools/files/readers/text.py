"""Readers of plain text in any of the usual encodings, of tables (CSV, TSV) and of JSON."""

import codecs
import csv
import io
import json
import re
from contextlib import suppress

from mas.runtime.text import format_count
from mas.tools.files.document import Document, Line, Part, Source, format_row, number_lines
from mas.tools.results import ToolError

_MARKS = (  # utf-32 first: its little-endian mark begins with that of utf-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_DECLARATION = re.compile(rb"""<(?:\?xml|meta)\s[^>]{0,200}(?:encoding|charset)=["']?([\w.-]{1,40})""", re.IGNORECASE)
_MAX_CONTROL_SHARE = 0.02
SAMPLE_CHARS = 8_192  # the sniffer's time grows faster than its sample
MAX_HEADING_CHARS = 1_500  # longer column names become row 0, which paging can split
_SEVEN_BIT = ("iso2022", "hz", "utf-7")  # whose bytes are valid utf-8, too


def read(source: Source) -> Document:
    text, encoding = decode(source.data, source.name, find_declared_encoding(source.data))
    return build_text_document(text, encoding)


def read_table(source: Source) -> Document:
    text, encoding = decode(source.data, source.name)
    dialect: type[csv.Dialect] = csv.excel
    with suppress(csv.Error):
        dialect = csv.Sniffer().sniff(text[:SAMPLE_CHARS], delimiters=",;\t|")
        dialect.quotechar, dialect.doublequote = '"', True  # apostrophes mislead its guess
    if source.suffix == ".tsv" and "\t" in text:
        dialect = csv.excel_tab
    try:
        rows = (cells for cells in csv.reader(io.StringIO(text, newline=""), dialect) if cells)
        names = next(rows, [])
        lines, columns = number_lines(map(format_row, rows)), format_row(names)
    except csv.Error as error:
        return build_text_document(text, encoding, [f"It is no valid table ({error}), so it is shown as text."])
    summary = f"table with {len(names)} columns and {len(lines)} rows below the column names"
    if len(columns) > MAX_HEADING_CHARS:
        lines.insert(0, Line(0, columns))
        columns = "(the column names are row 0)"
    part = Part(lines, heading=f"row | {columns}", numbered=True)
    return Document(f"{summary}, delimiter {dialect.delimiter!r}, {encoding}", [part])


def read_json(source: Source) -> Document:
    """Return a JSON value, indented; what is no single value, such as JSON Lines, as it is written."""
    text, encoding = decode(source.data, source.name)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return build_text_document(text, encoding, [f"Not valid JSON ({error}), so it is shown as text."])
    lines = split_lines(json.dumps(value, indent=2, ensure_ascii=False))
    size = f", {format_count(len(value), 'item')}" if isinstance(value, dict | list) else ""
    return Document(f"JSON{size}, {len(lines)} lines when indented", [Part(lines)])


def build_text_document(text: str, encoding: str, notes: list[str] | None = None) -> Document:
    lines = split_lines(text)
    summary = f"text, {encoding}, {len(lines)} lines, {len(text)} characters"
    return Document(summary, [Part(lines)], notes or [])


def split_lines(text: str) -> list[Line]:
    """Split a text at \\n, \\r\\n and \\r only; `str.splitlines` also splits at form feeds."""
    lines = re.split(r"\r\n|\r|\n", text)
    return number_lines(lines[:-1] if lines[-1] == "" else lines)


def find_declared_encoding(data: bytes) -> str | None:
    """Return the encoding that an XML declaration or an HTML `charset` names, if it exists."""
    found = _DECLARATION.search(data[:4_096])
    return check_encoding(found[1].decode("ascii")) if found else None


def check_encoding(name: str) -> str | None:
    """Return the name of an encoding that exists; not UTF-16, in which no declaration is found."""
    try:
        known = codecs.lookup(name)
    except LookupError:
        return None
    return name.lower() if known._is_text_encoding and not known.name.startswith(("utf-16", "utf-32")) else None


def decode(data: bytes, name: str, declared: str | None = None) -> tuple[str, str]:
    """Return the text and its encoding, by byte order mark, utf-8, the declared encoding or a guess."""
    text, encoding = decode_anything(data, declared)
    if "\x00" in text or len(_CONTROL.findall(text[:10_000])) > _MAX_CONTROL_SHARE * len(text[:10_000]):
        raise ToolError(f"{name} is binary, not text, and of no kind that read_file knows; it cannot be shown.")
    return text, encoding


def decode_anything(data: bytes, declared: str | None) -> tuple[str, str]:
    """Return what `decode` does, also of bytes that are not text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace"), encoding.removesuffix("-sig")
    if declared and data.isascii() and codecs.lookup(declared).name.startswith(_SEVEN_BIT):
        return data.decode(declared, "replace"), declared
    for encoding in ("utf-8", *([declared] if declared else [])):
        with suppress(UnicodeError):
            return data.decode(encoding), encoding
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    if sum(letter > "\x7f" for letter in text) > 2 * bad:  # utf-8 with more letters than faults
        return text, f"utf-8 with {bad} damaged characters"
    with suppress(UnicodeDecodeError):
        return data.decode("cp1252"), "windows-1252 (guessed)"
    return data.decode("latin-1"), "latin-1 (guessed)"
