"""Parts of invented questions: names, numbers and the bytes of small files.

The bytes depend on nothing but the content, so that the same seed writes the same sample.

    csv_bytes([["trader", "May"], ["Velmor", 412]])       # b"trader,May\\nVelmor,412\\n"
"""

import csv
import io
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import TypeVar

SYLLABLES = ("dra", "vel", "mo", "ri", "kes", "ta", "lun", "bo", "sha", "ner", "fi", "gol", "pa", "tim", "ze", "wor")
ENDINGS = ("n", "ck", "th", "va", "del", "ro", "mar", "s")
ZIP_DATE = (2020, 1, 1, 0, 0, 0)

Rows = Sequence[Sequence[object]]
T = TypeVar("T")


@dataclass(frozen=True)
class Drawn:
    """A question with its gold answer; `suffix` is empty if it has no attachment."""

    question: str
    answer: str
    level: int = 1  # GAIA's, by the kind of question; how much there is to get wrong is the difficulty
    suffix: str = ""  # ".csv"
    content: bytes = b""


Family = Callable[[Random, int], Drawn]  # the number is the difficulty, 1 to 3


def draw_names(rng: Random, count: int, alike: int = 0) -> list[str]:
    """Return different invented names, so that no model can know anything about them.

    The first is followed by `alike` that have its stem and another ending (at most 7), to be confused with it.
    """
    stem = _stem(rng)
    found = dict.fromkeys(stem + ending for ending in rng.sample(ENDINGS, alike + 1))
    while len(found) < count:
        found[_stem(rng) + rng.choice(ENDINGS)] = None
    return list(found)


def _stem(rng: Random) -> str:
    return "".join(rng.sample(SYLLABLES, 2)).capitalize()


def shuffle(rng: Random, items: Sequence[T]) -> list[T]:
    return rng.sample(items, len(items))


def round_half_up(value: Decimal, places: int) -> str:
    """Half goes up, as at school; never in exponent form."""
    return format(value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP), "f")


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
    return without_times(written)


def without_times(written: io.BytesIO) -> bytes:
    """The workbook again without the moment of writing, which openpyxl puts into properties and zip entries."""
    again = io.BytesIO()
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(again, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "docProps/core.xml":
                content = re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", b"2020-01-01T00:00:00Z", content)
            target.writestr(zipfile.ZipInfo(name, ZIP_DATE), content)
    return again.getvalue()
