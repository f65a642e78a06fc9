"""Readers of CSV, TSV and JSON. Invalid JSON is shown as written.

read_table(Source("towns.csv", b"…")).parts[0].heading      # "row | city | people"
read_json(Source("a.json", b"…")).parts[0].lines[1]         # Line(2, '  "city": "Rome"')
"""

import csv
import io
import json
from contextlib import suppress

from mas.tools.files.document import Document, Line, Part, Source
from mas.tools.files.readers.text import build_text_document, decode, format_row, split_lines

SAMPLE_CHARS = 8_192  # the sniffer's time grows faster than its sample
MAX_HEADING_CHARS = 1_500  # longer column names become row 0, which paging can split


def read_table(source: Source) -> Document:
    """Return the rows of a table."""
    text, encoding = decode(source.data, source.name)
    delimiter, after_space = ",", False
    with suppress(csv.Error):  # its guess of the quote character is not used: an apostrophe in a few names misleads it
        dialect = csv.Sniffer().sniff(text[:SAMPLE_CHARS], delimiters=",;\t|")
        delimiter, after_space = dialect.delimiter, dialect.skipinitialspace
    if source.suffix == ".tsv" and "\t" in text:
        delimiter, after_space = "\t", False
    lines, uneven = list[Line](), 0
    try:
        found = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=after_space)
        rows = (cells for cells in found if cells)
        names = next(rows, None)
        if names is None:
            return build_text_document(text, encoding, ["It holds no rows."])
        for number, cells in enumerate(rows, start=1):
            uneven += len(cells) != len(names)
            lines.append(Line(number, format_row(cells)))
    except csv.Error as error:
        return build_text_document(text, encoding, [f"It is no valid table ({error}), so it is shown as text."])
    notes = [f"{uneven} rows have more or fewer cells than there are column names."] if uneven else []
    summary = f"table with {len(names)} columns and {len(lines)} rows below the column names"
    columns = format_row(names)
    if len(columns) > MAX_HEADING_CHARS:
        lines.insert(0, Line(0, columns))
        columns = "(the column names are row 0)"
    part = Part(lines, heading=f"row | {columns}", numbered=True)
    return Document(f"{summary}, delimiter {delimiter!r}, {encoding}", [part], notes)


def read_json(source: Source) -> Document:
    """Return a JSON value, indented; what is no single value, such as JSON Lines, as it is written."""
    text, encoding = decode(source.data, source.name)
    try:
        value = json.loads(text, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError) as error:
        return build_text_document(text, encoding, [f"Not valid JSON ({error}), so it is shown as text."])
    lines = split_lines(json.dumps(value, indent=2, ensure_ascii=False))
    size = f", {len(value)} items" if isinstance(value, dict | list) else ""
    return Document(f"JSON{size}, {len(lines)} lines when indented", [Part(lines)])


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object; refuse equal keys, of which Python keeps the last: the text as written loses none."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("an object has the same key twice")
    return found
