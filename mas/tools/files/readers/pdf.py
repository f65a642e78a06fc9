"""PDF: text and tables of each page. A page without text is a picture of one, and read by OCR.

pdfplumber finds tables by their lines; it takes 50 to 100 ms a page, so a long file's later pages are read by pypdf,
which is quicker and finds no tables.

    read(Source("report.pdf", data)).parts[0].heading      # "[page 1 of 12]"
"""

import re
import zlib
from collections.abc import Iterator
from typing import Any

from mas.tools.files import ocr
from mas.tools.files.document import Document, Source, number_parts
from mas.tools.files.readers.text import format_row
from mas.tools.results import ToolError

MAX_PAGES = 1_000
MAX_PAGES_WITH_TABLES = 60
MAX_OCR_PAGES = 10
OCR_DPI = 150
MAX_PAGE_POINTS = 3_000  # of a side, for OCR: the largest poster has fewer
MAX_UNPACKED_BYTES = 256 * 1024 * 1024  # of all streams together; pdfplumber has no limit of its own

_STREAM = re.compile(rb"stream\r?\n")
_STEP_BYTES = 64 * 1024


def read(source: Source) -> Document:
    import pypdf

    _refuse_bomb(source)
    reader = pypdf.PdfReader(source.stream())
    if reader.is_encrypted and not reader.decrypt(""):
        raise ToolError(f"{source.name} is protected by a password; go on without it.")
    count = len(reader.pages)
    texts, pictures = _texts(source, count)
    missing = ocr.explain_missing() if pictures else None
    notes = [_describe_pictures(pictures, missing)] if pictures else []
    texts += [_plain(reader.pages[number]) for number in range(len(texts), min(count, MAX_PAGES))]
    if count > MAX_PAGES_WITH_TABLES:
        notes.append(f"Tables are shown as rows on the first {MAX_PAGES_WITH_TABLES} pages, then as running text.")
    if count > MAX_PAGES:
        notes.append(f"Only the first {MAX_PAGES} of its {count} pages are read.")
    return Document(
        f"PDF, {count} pages", number_parts("page", texts), notes, "page", is_incomplete=missing is not None
    )


def _texts(source: Source, count: int) -> tuple[list[list[str]], list[int]]:
    """Return the lines of the first pages, with their tables, and the numbers of those that are pictures."""
    import pdfplumber

    texts, pictures = [], list[int]()
    with pdfplumber.open(source.stream()) as document:
        for number, page in enumerate(document.pages[: min(count, MAX_PAGES_WITH_TABLES)], start=1):
            lines = [*(page.extract_text() or "").split("\n"), *_rows(page)]
            if not any(line.strip() for line in lines) and page.images:
                lines = _seen(page) if len(pictures) < MAX_OCR_PAGES else []
                pictures.append(number)
            texts.append([line for line in lines if line.strip()])
            page.close()
    return texts, pictures


def _describe_pictures(pictures: list[int], missing: str | None) -> str:
    listed = ", ".join(map(str, pictures[:40]))
    how = f"not read. {missing}" if missing else f"read by OCR (up to {MAX_OCR_PAGES} of them)"
    return f"Pages that are pictures without text: {listed}; {how}"


def _rows(page: Any) -> Iterator[str]:
    """Tables are repeated below the page's text, where their cells run together."""
    for number, rows in enumerate(page.extract_tables(), start=1):
        if len(rows) > 1:
            yield f"[table {number} of this page]"
            yield from (format_row(" ".join((cell or "").split()) for cell in cells) for cells in rows)


def _seen(page: Any) -> list[str]:
    if max(page.width, page.height) > MAX_PAGE_POINTS:
        return []
    return (ocr.read_text(page.to_image(resolution=OCR_DPI).original) or "").split("\n")


def _plain(page: Any) -> list[str]:
    return [line for line in page.extract_text().split("\n") if line.strip()]


def _refuse_bomb(source: Source) -> None:
    """Unpacks what looks like a deflated stream, in small steps and to nowhere."""
    total = 0
    for found in _STREAM.finditer(source.data):
        for size in _unpacked_sizes(memoryview(source.data)[found.end() :]):
            total += size
            if total > MAX_UNPACKED_BYTES:
                raise ToolError(f"{source.name} unpacks to more than {MAX_UNPACKED_BYTES} bytes; it is not read.")


def _unpacked_sizes(packed: memoryview) -> Iterator[int]:
    unpacker = zlib.decompressobj()
    for start in range(0, len(packed), _STEP_BYTES):
        piece = bytes(packed[start : start + _STEP_BYTES])
        while piece and not unpacker.eof:
            try:
                yield len(unpacker.decompress(piece, 16 * _STEP_BYTES))
            except zlib.error:
                return
            piece = unpacker.unconsumed_tail
        if unpacker.eof:
            return
