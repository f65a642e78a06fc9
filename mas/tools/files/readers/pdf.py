"""Reader of PDF: text, tables, form fields and comments of each page; OCR of pages without text."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pdfplumber.page import Page
    from pypdfium2 import PdfDocument

from mas.tools.files.document import Document, Source, format_row, number_parts
from mas.tools.files.readers.media import MAX_SIDE, NO_TESSERACT, has_tesseract, recognize_text
from mas.tools.results import ToolError

MAX_PAGES = 1_000
MAX_PAGES_WITH_TABLES = 60  # the pages after them are read by a faster library, without tables
MAX_OCR_PAGES = 10
OCR_DPI = 150


def read(source: Source) -> Document:
    import pdfplumber
    from pdfplumber.utils.exceptions import PdfminerException
    from pypdfium2 import PdfDocument

    texts, pictures = list[list[str]](), list[int]()
    try:
        document = pdfplumber.open(source.open())
    except PdfminerException as error:
        if "Password" not in repr(error):
            raise
        raise ToolError(f"{source.name} is protected by a password; go on without it.") from error
    with document:
        count = len(document.pages)
        faster = PdfDocument(source.data) if count > MAX_PAGES_WITH_TABLES else None
        for number, page in enumerate(document.pages[:MAX_PAGES], start=1):
            if faster and number > MAX_PAGES_WITH_TABLES:
                lines = _read_quickly(faster, number)
            else:
                lines = [*page.extract_text().split("\n"), *_read_tables(page)]
            if not any(line.strip() for line in lines) and page.images:
                pictures.append(number)
                lines = _recognize(page) if len(pictures) <= MAX_OCR_PAGES else []
            texts.append([line for line in (*lines, *_read_annotations(page)) if line.strip()])
            page.close()
    notes = list[str]()
    if pictures:
        how = f"read by OCR (up to {MAX_OCR_PAGES} of them)" if has_tesseract() else f"not read. {NO_TESSERACT}"
        notes.append(f"Pages that are pictures without text: {', '.join(map(str, pictures[:40]))}; {how}")
    if count > MAX_PAGES_WITH_TABLES:
        notes.append(f"Tables are shown as rows on the first {MAX_PAGES_WITH_TABLES} pages, then as running text.")
    if count > MAX_PAGES:
        notes.append(f"Only the first {MAX_PAGES} of its {count} pages are read.")
    return Document(f"PDF, {count} pages", number_parts("page", texts), notes, "page")


def _read_quickly(document: "PdfDocument", number: int) -> list[str]:
    from pypdfium2 import PdfiumError

    with suppress(PdfiumError):  # it cannot load this page
        text: str = document[number - 1].get_textpage().get_text_range()
        return text.replace("\ufffe", "-\n").splitlines()  # its sign for a hyphen and the end of the line
    return []


def _read_tables(page: "Page") -> Iterator[str]:
    """Yield the tables of a page as rows, for below its text, in which their cells run together."""
    for number, rows in enumerate(page.extract_tables(), start=1):
        if len(rows) > 1:
            yield f"[table {number} of this page]"
            yield from (format_row(" ".join((cell or "").split()) for cell in cells) for cells in rows)


def _recognize(page: "Page") -> list[str]:
    resolution = min(OCR_DPI, 72 * MAX_SIDE / max(page.width, page.height))
    return (recognize_text(page.to_image(resolution=resolution).original) or "").split("\n")


def _read_annotations(page: "Page") -> Iterator[str]:
    """Yield what was typed into a page's form fields, and its comments, which are no text of it."""
    from pdfminer.pdftypes import resolve1
    from pdfplumber.utils.pdfinternals import resolve_and_decode

    with suppress(Exception):  # pdfminer raises anything for a damaged file
        for reference in resolve1(page.page_obj.annots) or ():
            with suppress(Exception):  # the others are shown
                found = resolve1(reference)
                field = found if "T" in found else resolve1(found.get("Parent")) or found
                text, kind = resolve_and_decode(found.get("Contents")), resolve_and_decode(found.get("Subtype"))
                if value := resolve_and_decode(found.get("V", field.get("V"))):
                    yield f"[form field] {resolve_and_decode(field.get('T'))}: {value}"
                elif text and kind in ("FreeText", "Text"):
                    yield f"[comment] {text}"
