"""The bytes of small Excel, Word, PowerPoint, PDF and e-book files, archives, pictures and sounds.

pdf_bytes([["Page one"], [["trader", "May"], ["Velmor", "412"]]])
picture_bytes("PNG", ["The boat to Velmor", "leaves from pier 412."])
"""

import io
import math
import struct
import wave
import zipfile
from collections.abc import Mapping, Sequence
from html import escape

Rows = Sequence[Sequence[object]]
Page = Sequence[str | Sequence[object]]  # lines, or the rows of a table
LETTER_PIXELS, MARGIN_PIXELS = 40, 30  # high; OCR reads such letters without a mistake
WAV_HZ = 8_000


def zip_bytes(members: Mapping[str, bytes], stored: str = "") -> bytes:
    """`stored`: the member that is not packed, as an e-book's first must be."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content, zipfile.ZIP_STORED if name == stored else zipfile.ZIP_DEFLATED)
    return written.getvalue()


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
    return written.getvalue()


def docx_bytes(paragraphs: Sequence[str], table: Rows = ()) -> bytes:
    import docx

    document = docx.Document()
    for text in paragraphs:
        document.add_paragraph(text)
    if table:
        grid = document.add_table(len(table), len(table[0]))
        for row, cells in enumerate(table):
            for column, value in enumerate(cells):
                grid.cell(row, column).text = str(value)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def pptx_bytes(slides: Sequence[tuple[str, str, str]]) -> bytes:
    """Each slide's title, text and speaker's notes."""
    import pptx

    presentation = pptx.Presentation()
    for title, text, notes in slides:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
        slide.notes_slide.notes_text_frame.text = notes
    written = io.BytesIO()
    presentation.save(written)
    return written.getvalue()


def epub_bytes(title: str, chapters: Sequence[tuple[str, Sequence[str]]]) -> bytes:
    """Each chapter's heading and paragraphs."""
    container = (
        '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    names = [f"chapter{number}.xhtml" for number in range(1, len(chapters) + 1)]
    items = "".join(f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in names)
    spine = "".join(f'<itemref idref="{name}"/>' for name in names)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">sample</dc:identifier>'
        f"<dc:title>{escape(title)}</dc:title><dc:language>en</dc:language></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    members = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OEBPS/book.opf": package}
    for name, (heading, paragraphs) in zip(names, chapters, strict=True):
        text = "".join(f"<p>{escape(paragraph)}</p>\n" for paragraph in paragraphs)
        page = f"<head><title>{escape(heading)}</title></head><body><h1>{escape(heading)}</h1>\n{text}</body>"
        members[f"OEBPS/{name}"] = f'<html xmlns="http://www.w3.org/1999/xhtml">{page}</html>'
    return zip_bytes({name: content.encode() for name, content in members.items()}, stored="mimetype")


def pdf_bytes(pages: Sequence[Page]) -> bytes:
    """A page is lines of text, or a table with rules around its cells. Letters of latin-1 alone."""
    contents = [_draw_page(page) for page in pages]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    return _pdf_file(objects)


def _draw_page(page: Page) -> bytes:
    drawn: list[str] = []
    for row, line in enumerate(page):
        top = 720 - 20 * row
        for column, cell in enumerate([line] if isinstance(line, str) else line):
            left = 60 + 80 * column
            if not isinstance(line, str):
                drawn.append(f"{left - 4} {top - 6} 80 20 re S")
            text = str(cell).replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
            drawn.append(f"BT /F1 11 Tf {left} {top} Td ({text}) Tj ET")
    return "\n".join(drawn).encode("latin-1")


def _pdf_file(objects: Sequence[bytes]) -> bytes:
    """Numbered objects, then the table of where each begins."""
    written, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return written + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        % (size, table, size, len(written))
    )


def picture_bytes(form: str, lines: Sequence[str]) -> bytes:
    """`form`: PNG, JPEG, GIF or WEBP. Black on white, in the font that is part of Pillow."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=LETTER_PIXELS)
    width = math.ceil(max(font.getlength(line) for line in lines)) + 2 * MARGIN_PIXELS
    step = round(LETTER_PIXELS * 1.5)
    image = Image.new("L", (width, step * len(lines) + 2 * MARGIN_PIXELS), 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((MARGIN_PIXELS, MARGIN_PIXELS + number * step), line, fill=0, font=font)
    written = io.BytesIO()
    (image.convert("RGB") if form == "WEBP" else image).save(written, form)
    return written.getvalue()


def wav_bytes(tones_hz: Sequence[float]) -> bytes:
    """A quarter of a second of each tone, 8 bits a sample."""
    count = WAV_HZ // 4
    samples = bytes(
        round(128 + 100 * math.sin(2 * math.pi * tone * place / WAV_HZ)) for tone in tones_hz for place in range(count)
    )
    written = io.BytesIO()
    with wave.open(written, "wb") as sound:
        sound.setparams((1, 1, WAV_HZ, count, "NONE", ""))
        sound.writeframes(samples)
    return written.getvalue()


def m4a_bytes(milliseconds: int) -> bytes:
    mvhd = struct.pack(">I4sIIIII", 108, b"mvhd", 0, 0, 0, 1000, milliseconds) + bytes(80)
    return struct.pack(">I4s4sI", 16, b"ftyp", b"M4A ", 0) + struct.pack(">I4s", 116, b"moov") + mvhd
