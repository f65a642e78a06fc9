"""Reader of CSV and TSV: column names, number of rows, rows.

read(Source("towns.csv", b"…")).parts[0].heading      # "row | city | people"
"""

import csv
import io

from mas.tools.files.document import Document, Line, Part, Source
from mas.tools.files.readers.text import build_text_document, decode, format_row

SAMPLE_CHARS = 8_192  # the sniffer's time grows faster than its sample
MAX_HEADING_CHARS = 1_500  # longer column names become row 0, which paging can split


def read(source: Source) -> Document:
    """Return the rows of a table."""
    text, encoding = decode(source.data, source.name)
    delimiter, after_space = ("\t", False) if source.suffix == ".tsv" and "\t" in text else _sniff(text)
    try:
        found = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=after_space)
        rows = [cells for cells in found if cells]
    except csv.Error as error:
        return build_text_document(text, encoding, [f"It is no valid table ({error}), so it is shown as text."])
    if not rows:
        return build_text_document(text, encoding, ["It holds no rows."])
    return _build_document(rows[0], rows[1:], f"delimiter {delimiter!r}, {encoding}")


def _sniff(text: str) -> tuple[str, bool]:
    """Return the delimiter, and True if a space follows it.

    The sniffer's guess of the quote character is not used: an apostrophe in a few names misleads it.
    """
    try:
        dialect = csv.Sniffer().sniff(text[:SAMPLE_CHARS], delimiters=",;\t|")
    except csv.Error:
        return ",", False
    return dialect.delimiter, dialect.skipinitialspace


def _build_document(names: list[str], rows: list[list[str]], form: str) -> Document:
    lines = [Line(number, format_row(cells)) for number, cells in enumerate(rows, start=1)]
    columns = format_row(names)
    if len(columns) > MAX_HEADING_CHARS:
        lines.insert(0, Line(0, columns))
        columns = "(the column names are row 0)"
    uneven = sum(len(cells) != len(names) for cells in rows)
    notes = [f"{uneven} rows have more or fewer cells than there are column names."] if uneven else []
    summary = f"table with {len(names)} columns and {len(rows)} rows below the column names, {form}"
    return Document(summary, [Part(lines, heading=f"row | {columns}", numbered=True)], notes)
