"""Word, PowerPoint, PDF, e-books, web pages, pictures and sounds: what their readers show beyond plain text."""

import io
import time
import zipfile
import zlib

import pytest

from mas.tools.files.document import Document, Source
from mas.tools.files.kinds import read_in_process
from mas.tools.files.reader_pool import MAX_CPU_SECONDS
from mas.tools.files.readers import media, pdf
from mas.tools.results import ToolError
from tests.file_bytes import docx_bytes, epub_bytes, pdf_bytes, picture_bytes, pptx_bytes, zip_bytes
from tests.needs import needs


def read(name: str, data: bytes) -> Document:
    return read_in_process(Source(name, data))


def texts(document: Document) -> list[list[str]]:
    return [[line.text for line in part.lines] for part in document.parts]


def test_a_word_document_shows_paragraphs_lists_and_tables_in_order() -> None:
    import docx

    document = docx.Document(io.BytesIO(docx_bytes(["First."], [["a", "b|c"], ["1", "2"]])))
    document.add_paragraph("item", style="List Bullet")
    document.sections[0].header.paragraphs[0].text = "top"
    document.add_comment(document.paragraphs[0].runs, text="not so", author="A").add_paragraph("55")
    written = io.BytesIO()
    document.save(written)
    assert texts(read("a.docx", written.getvalue())) == [
        ["[header] top", "First.", "a | b\\|c", "1 | 2", "- item", "[comment] not so 55"]
    ]


def test_slides_come_one_by_one_with_their_notes() -> None:
    document = read("a.pptx", pptx_bytes([("One", "text", ""), ("Two", "more", "say\nthis")]))
    assert texts(document) == [["One", "text"], ["Two", "more", "[speaker note] say", "[speaker note] this"]]
    assert [part.heading for part in document.parts] == ["[slide 1 of 2]", "[slide 2 of 2]"]


def test_a_pdf_shows_text_and_tables_page_by_page() -> None:
    document = read("a.pdf", pdf_bytes([["One (1)"], [["a", "b"], ["1", "2"]], []]))
    assert texts(document) == [["One (1)"], ["a b", "1 2", "[table 1 of this page]", "a | b", "1 | 2"], []]
    assert (document.unit, document.summary) == ("page", "PDF, 3 pages")


def test_a_long_pdf_is_read_quickly_and_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_PAGES_WITH_TABLES", 1)
    monkeypatch.setattr(pdf, "MAX_PAGES", 3)
    document = read("a.pdf", pdf_bytes([[f"page {number}"] for number in range(1, 5)]))
    assert texts(document) == [["page 1"], ["page 2"], ["page 3"]]
    assert "Only the first 3 of its 4 pages" in document.notes[-1]


def test_a_pdf_of_as_many_dense_pages_as_are_read_takes_less_than_a_files_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_PAGES_WITH_TABLES", 1)
    lines, count = [f"{number} {'sheep, safely, ' * 6}and a half-" for number in range(35)], 30
    data, before = pdf_bytes([lines] * count), time.process_time()
    assert texts(read("a.pdf", data))[-1] == lines
    assert (time.process_time() - before) / count < MAX_CPU_SECONDS / 2 / pdf.MAX_PAGES


def test_a_protected_pdf_is_refused() -> None:
    import pypdf

    writer = pypdf.PdfWriter(io.BytesIO(pdf_bytes([["secret"]])))
    writer.encrypt("password", algorithm="RC4-128")
    written = io.BytesIO()
    writer.write(written)
    with pytest.raises(ToolError, match="protected by a password"):
        read("a.pdf", written.getvalue())


@needs("tesseract")
def test_a_scanned_page_is_read_by_ocr() -> None:
    from PIL import Image

    written = io.BytesIO()
    with Image.open(io.BytesIO(picture_bytes("PNG", ["Velmor ships 412"]))) as picture:
        picture.convert("RGB").save(written, "PDF", resolution=100)
    document = read("a.pdf", written.getvalue())
    assert texts(document) == [["Velmor ships 412"]]
    assert "Pages that are pictures without text: 1; read by OCR" in document.notes[0]


def test_a_book_shows_its_chapters_in_the_order_of_its_spine() -> None:
    document = read("a.epub", epub_bytes("Title", [("One", ["a", "b & c"]), ("Two", ["d"])]))
    assert texts(document) == [["# One", "a", "b & c"], ["# Two", "d"]]
    assert document.summary == 'e-book "Title", 2 chapters'


def test_a_book_loses_no_text_that_a_wiki_page_would() -> None:
    with zipfile.ZipFile(io.BytesIO(epub_bytes("Title", [("One", ["x"])]))) as made:
        members = {name: made.read(name) for name in made.namelist()}
    chapter = (
        "<html><head><title>T</title><style>s</style><script>s</script></head><body><div id='toc'>a</div>"
        "<p class='metadata'>b</p><p class='noprint'>c</p><p class='navbox'>d</p><p>e<sup class='reference'>f</sup></p>"
    )
    members["OEBPS/chapter1.xhtml"] = chapter.encode()
    assert texts(read("a.epub", zip_bytes(members, stored="mimetype"))) == [["a", "b", "c", "d", "ef"]]


def test_a_web_page_loses_its_tags_and_keeps_title_links_and_tables() -> None:
    page = (
        "<html><head><title>T &amp; U</title><script>x()</script></head><body><p>See <a href='http://a/b'>it</a>.</p>"
        "<ul><li>one</ul><table><tr><th>a<th>b</tr><tr><td>1<td>2</tr></table></body></html>"
    )
    assert texts(read("a.html", page.encode())) == [
        ["[title] T & U", "See it <http://a/b>.", "- one", "| a | b |", "| --- | --- |", "| 1 | 2 |"]
    ]


def test_a_picture_with_too_many_pixels_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(picture_bytes("PNG", ["x"]))
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    with pytest.raises(ToolError):
        read("a.png", bytes(data))
    monkeypatch.setattr(media, "MAX_PIXELS", 100)
    with pytest.raises(ToolError, match="opens pictures up to 100"):
        read("a.png", picture_bytes("PNG", ["x"]))


def test_a_picture_in_a_format_that_runs_programs_is_refused() -> None:
    with pytest.raises(ToolError, match=r"a\.png"):
        read("a.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n\x00")
