"""Reader of PDF: text and tables of each page; OCR of pages without text.

pdfplumber finds tables by their lines and takes 50 to 100 ms a page; the later pages of a long file are read by pypdf,
which is faster and finds no tables.

    read(Source("report.pdf", data)).parts[0].heading      # "[page 1 of 12]"
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pdfplumber.page import Page
    from pypdf import PageObject

from mas.tools.files import ocr
from mas.tools.files.document import Document, Source, number_parts
from mas.tools.files.readers.text import format_row
from mas.tools.results import ToolError

MAX_PAGES = 1_000
MAX_PAGES_WITH_TABLES = 60
MAX_OCR_PAGES = 10
OCR_DPI = 150
MAX_PAGE_POINTS = 3_000  # of a side, for OCR; more than the largest poster


def read(source: Source) -> Document:
    """Return the pages of a PDF file."""
    import pypdf

    reader = pypdf.PdfReader(source.open())
    if reader.is_encrypted and not reader.decrypt(""):
        raise ToolError(f"{source.name} is protected by a password; go on without it.")
    count = len(reader.pages)
    texts, pictures = _read_pages(source, count)
    notes = [_describe_pictures(pictures)] if pictures else []
    texts += [_read_plain(reader.pages[number]) for number in range(len(texts), min(count, MAX_PAGES))]
    for page, lines in zip(reader.pages, texts, strict=False):
        lines += _read_annotations(page)
    if count > MAX_PAGES_WITH_TABLES:
        notes.append(f"Tables are shown as rows on the first {MAX_PAGES_WITH_TABLES} pages, then as running text.")
    if count > MAX_PAGES:
        notes.append(f"Only the first {MAX_PAGES} of its {count} pages are read.")
    return Document(f"PDF, {count} pages", number_parts("page", texts), notes, "page")


def _read_pages(source: Source, count: int) -> tuple[list[list[str]], list[int]]:
    """Return the lines of the first pages, with their tables, and the numbers of those that are pictures."""
    import pdfplumber

    texts, pictures = [], list[int]()
    with pdfplumber.open(source.open()) as document:
        for number, page in enumerate(document.pages[: min(count, MAX_PAGES_WITH_TABLES)], start=1):
            lines = [*(page.extract_text() or "").split("\n"), *_read_tables(page)]
            if not any(line.strip() for line in lines) and page.images:
                lines = _recognize(page) if len(pictures) < MAX_OCR_PAGES else []
                pictures.append(number)
            texts.append([line for line in lines if line.strip()])
            page.close()
    return texts, pictures


def _read_annotations(page: "PageObject") -> Iterator[str]:
    """Yield what was typed into the form fields of a page, and its comments, which are no text to the libraries."""
    for annotation in page.annotations or ():
        found = annotation.get_object()
        field = found if "/T" in found else found.get("/Parent", found).get_object()
        value = found.get("/V", field.get("/V"))
        if value is not None and str(value).strip():
            yield f"[form field] {field.get('/T', '')}: {str(value).removeprefix('/')}"
        elif found.get("/Subtype") in ("/FreeText", "/Text") and found.get("/Contents"):
            yield f"[comment] {found['/Contents']}"


def _describe_pictures(pictures: list[int]) -> str:
    listed = ", ".join(map(str, pictures[:40]))
    how = f"read by OCR (up to {MAX_OCR_PAGES} of them)" if ocr.is_installed() else f"not read. {ocr.MISSING}"
    return f"Pages that are pictures without text: {listed}; {how}"


def _read_tables(page: "Page") -> Iterator[str]:
    """Yield the tables of a page as rows, for below its text, in which their cells run together."""
    for number, rows in enumerate(page.extract_tables(), start=1):
        if len(rows) > 1:
            yield f"[table {number} of this page]"
            yield from (format_row(" ".join((cell or "").split()) for cell in cells) for cells in rows)


def _recognize(page: "Page") -> list[str]:
    if max(page.width, page.height) > MAX_PAGE_POINTS:
        return []
    return (ocr.read_text(page.to_image(resolution=OCR_DPI).original) or "").split("\n")


def _read_plain(page: "PageObject") -> list[str]:
    return [line for line in page.extract_text().split("\n") if line.strip()]
