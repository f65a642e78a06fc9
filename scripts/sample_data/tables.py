"""Bytes of CSV files and workbooks that depend on nothing but the content: one seed always writes one sample.

csv_bytes([["trader", "May"], ["Velmor", 412]])       # b"trader,May\\nVelmor,412\\n"
"""

import csv
import io
import re
import zipfile
from collections.abc import Mapping, Sequence

ZIP_DATE = (2020, 1, 1, 0, 0, 0)

Rows = Sequence[Sequence[object]]


def csv_bytes(rows: Rows) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def xlsx_bytes(sheets: Mapping[str, Rows]) -> bytes:
    """Return a workbook with one sheet for each key."""
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
    """Return the workbook without the moment of writing, which openpyxl puts into properties and zip entries."""
    again = io.BytesIO()
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(again, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "docProps/core.xml":
                content = re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", b"2020-01-01T00:00:00Z", content)
            target.writestr(zipfile.ZipInfo(name, ZIP_DATE), content)
    return again.getvalue()
