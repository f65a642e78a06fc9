"""What a sample question is made of: invented names, and the bytes of small files.

The bytes depend on nothing but the content, so that the same seed writes the same sample.

    csv_bytes([["trader", "May"], ["Velmor", 412]])       # b"trader,May\\nVelmor,412\\n"
"""

import csv
import io
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

SYLLABLES = ("dra", "vel", "mo", "ri", "kes", "ta", "lun", "bo", "sha", "ner", "fi", "gol", "pa", "tim", "ze", "wor")
ENDINGS = ("n", "ck", "th", "va", "del", "ro", "mar", "s")
ZIP_DATE = (2020, 1, 1, 0, 0, 0)

Rows = Sequence[Sequence[object]]


@dataclass(frozen=True)
class Drawn:
    """A question with its gold answer; `suffix` is empty if it has no attachment."""

    question: str
    answer: str
    level: int = 1
    suffix: str = ""  # ".csv"
    content: bytes = b""


Family = Callable[[Random], Drawn]


def names(rng: Random, count: int) -> list[str]:
    """Different invented names, so that no model can know anything about them."""
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.sample(SYLLABLES, 2)).capitalize() + rng.choice(ENDINGS)] = None
    return list(found)


def csv_bytes(rows: Rows) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def xlsx_bytes(sheets: Mapping[str, Rows]) -> bytes:
    """A workbook with one sheet for each key."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
    written = io.BytesIO()
    book.save(written)
    return _without_times(written)


def _without_times(written: io.BytesIO) -> bytes:
    """The workbook again without the moment of writing, which openpyxl puts into properties and zip entries."""
    again = io.BytesIO()
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(again, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "docProps/core.xml":
                content = re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", b"2020-01-01T00:00:00Z", content)
            target.writestr(zipfile.ZipInfo(name, ZIP_DATE), content)
    return again.getvalue()
