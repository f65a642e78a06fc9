"""PDF files: limits on pages, pictures and what streams unpack to."""

import io
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from mas.tools.files import ocr
from mas.tools.files.document import Document, Source
from mas.tools.files.readers import pdf
from mas.tools.results import ToolError
from scripts.sample_data.office import pdf_bytes


def read(data: bytes) -> Document:
    return pdf.read(Source("a.pdf", data))


def texts(document: Document) -> list[list[str]]:
    return [[line.text for line in part.lines] for part in document.parts]


def scanned(pages: int, size: tuple[int, int] = (40, 20)) -> bytes:
    from PIL import Image

    images = [Image.new("RGB", size, "white") for _ in range(pages)]
    written = io.BytesIO()
    images[0].save(written, "PDF", resolution=72, save_all=True, append_images=images[1:])
    return written.getvalue()


@pytest.fixture
def recognized(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """Sizes of the pictures in which text was looked for."""
    found: list[tuple[int, int]] = []

    def look(image: object) -> str:
        found.append(image.size)  # type: ignore[attr-defined]
        return f"seen {len(found)}\n \nmore"

    monkeypatch.setattr(ocr, "read_text", look)
    monkeypatch.setattr(ocr, "explain_missing", lambda: None)
    yield found


def test_so_many_pages_that_are_pictures_are_read(
    recognized: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "MAX_OCR_PAGES", 2)
    document = read(scanned(3))
    assert texts(document) == [["seen 1", "more"], ["seen 2", "more"], []]
    assert document.notes == ["Pages that are pictures without text: 1, 2, 3; read by OCR (up to 2 of them)"]
    assert not document.is_incomplete
    assert all(abs(width - 40 * 150 / 72) <= 1 and abs(height - 20 * 150 / 72) <= 1 for width, height in recognized)


@pytest.mark.parametrize(("most", "is_read"), [(40, True), (39, False)])
@pytest.mark.parametrize("size", [(40, 20), (20, 40)])
def test_a_page_larger_than_a_poster_is_not_drawn(
    size: tuple[int, int], most: int, is_read: bool, recognized: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "MAX_PAGE_POINTS", most)
    assert texts(read(scanned(1, size))) == [["seen 1", "more"] if is_read else []]
    assert len(recognized) == is_read


def test_without_ocr_the_pictures_are_named_and_the_text_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "read_text", lambda image: None)
    monkeypatch.setattr(ocr, "explain_missing", lambda: "No program.")
    document = read(scanned(1))
    assert (texts(document), document.is_incomplete) == ([[]], True)
    assert document.notes == ["Pages that are pictures without text: 1; not read. No program."]
    assert pdf._describe_pictures(list(range(1, 42)), None) == (
        f"Pages that are pictures without text: {', '.join(map(str, range(1, 41)))}; read by OCR (up to 10 of them)"
    )


def test_pages_with_text_are_complete_whatever_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "explain_missing", lambda: "No program.")
    document = read(pdf_bytes([["One"], []]))
    assert (texts(document), document.notes, document.is_incomplete) == ([["One"], []], [], False)
    assert (document.summary, document.unit) == ("PDF, 2 pages", "page")
    assert [part.heading for part in document.parts] == ["[page 1 of 2]", "[page 2 of 2]"]


def test_the_limits_of_pages_belong_to_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_PAGES_WITH_TABLES", 2)
    monkeypatch.setattr(pdf, "MAX_PAGES", 3)
    tables = "Tables are shown as rows on the first 2 pages, then as running text."
    for count, notes in (
        (2, []),
        (3, [tables]),
        (4, [tables, "Only the first 3 of its 4 pages are read."]),
    ):
        document = read(pdf_bytes([[f"page {number}"] for number in range(1, count + 1)]))
        assert texts(document) == [[f"page {number}"] for number in range(1, min(count, 3) + 1)]
        assert (document.notes, document.summary) == (notes, f"PDF, {count} pages")


def test_tables_are_looked_for_on_the_first_pages_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_PAGES_WITH_TABLES", 1)
    table = [["a", "b"], ["1", "2"]]
    first, second = texts(read(pdf_bytes([table, table])))
    assert first == ["a b", "1 2", "[table 1 of this page]", "a | b", "1 | 2"]
    assert second and not any("table" in line or "|" in line for line in second)


def test_a_file_that_only_its_owner_may_change_is_read() -> None:
    import pypdf

    for password, is_read in (("", True), ("open", False)):
        writer = pypdf.PdfWriter(io.BytesIO(pdf_bytes([["text"]])))
        writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
        written = io.BytesIO()
        writer.write(written)
        if is_read:
            assert texts(read(written.getvalue())) == [["text"]]
        else:
            with pytest.raises(ToolError) as refused:
                read(written.getvalue())
            assert str(refused.value) == "a.pdf is protected by a password; go on without it."


class Page:
    """Page with these tables."""

    def __init__(self, *tables: list[list[str | None]]) -> None:
        self.tables = tables

    def extract_tables(self) -> tuple[list[list[str | None]], ...]:
        return self.tables


def test_a_table_of_two_rows_is_one_and_a_frame_around_a_text_is_none() -> None:
    page = Page([["a\n b", None], ["c|d", "e"]], [["framed"]], [["f"], ["g"]])
    assert list(pdf._read_tables(page)) == [  # type: ignore[arg-type]
        "[table 1 of this page]", "a b | ", "c\\|d | e", "[table 3 of this page]", "f", "g"
    ]  # fmt: skip


def stream(size: int, ending: bytes = b"\n") -> bytes:
    return b"stream" + ending + zlib.compress(bytes(size)) + b"\nendstream\n"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (stream(1_000), 1_000),
        (stream(1_000, b"\r\n") + stream(500), 1_500),
        (stream(3_000_000), 3_000_000),  # in several steps
        (b"stream\nnot packed\nendstream" + stream(7), 7),
        (b"stream\n", 0),
    ],
)
def test_all_streams_together_may_unpack_to_the_limit(data: bytes, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_UNPACKED_BYTES", size)
    pdf._refuse_bomb(Source("a.pdf", data))
    monkeypatch.setattr(pdf, "MAX_UNPACKED_BYTES", size - 1)
    if size == 0:
        return
    with pytest.raises(ToolError) as refused:
        pdf._refuse_bomb(Source("a.pdf", data))
    assert str(refused.value) == f"a.pdf unpacks to more than {size - 1} bytes; it is not read."


def test_a_stream_is_unpacked_in_small_steps() -> None:
    sizes = list(pdf._unpack_sizes(memoryview(zlib.compress(bytes(5_000_000)) + b"rest" * 100_000)))
    assert sum(sizes) == 5_000_000 and max(sizes) <= 16 * 64 * 1024


def test_a_page_with_a_picture_and_some_text_is_no_picture(
    recognized: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pdfplumber

    class Illustrated(Page):
        images = ("a picture",)

        def extract_text(self) -> str:
            return "a\n\nb"

        def close(self) -> None:
            """Nothing is open."""

    document = SimpleNamespace(pages=[Illustrated()])
    monkeypatch.setattr(pdfplumber, "open", lambda file: nullcontext(document))
    assert pdf._read_pages(Source("a.pdf", b""), 1) == ([["a", "b"]], []) and recognized == []
