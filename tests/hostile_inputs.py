"""Inputs of every kind that cost a reader the most, and what reading one costs the process of the run.

    python tests/hostile_inputs.py rows.csv attributes.html --seconds 20
    # {"bytes": 48000000, "name": "rows.csv", "outcome": "read", "seconds": 14.2, "grown_mb": 7, "lag_ms": 18, …}

Each input is below 50 MB (a page below the limits of `tools.web`). Reading one ends after `seconds` at the latest.
"""

import argparse
import asyncio
import base64
import io
import json
import multiprocessing
import random
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.tools.attachments import use_attachments
from mas.tools.files.html_rows import READ_LINES
from mas.tools.files.reader_pool import await_reader
from mas.tools.http.client import Reply
from mas.tools.read_file import read_file
from mas.tools.results import ToolError
from mas.tools.web.page_view import show_page
from mas.tools.web.read_page import read_reply

LARGE = 48_000_000
PAGE = 9_900_000  # less than a page may have
TICK_SECONDS = 0.005


def fill(piece: str, size: int, start: str = "", end: str = "") -> bytes:
    return (start + piece * ((size - len(start) - len(end)) // len(piece)) + end).encode()


def nested_json() -> bytes:
    """One value a line, 990 levels deep: 1.2 MB become 2.2 GB of spaces when they are indented."""
    return b"[" * 900 + b"1," * 560_000 + b"1" + b"]" * 900


def small_json() -> bytes:
    """As nested as the other, and small enough to be parsed in the process of the run."""
    return b"[" * 900 + b"1," * 3_100 + b"1" + b"]" * 900


def attributes_html() -> bytes:
    """One element with a million attributes, which libxml2 compares with each other."""
    names = " ".join(f"a{number:x}" for number in range(1_000_000))
    return f"<html><body><p {names}>x</p></body></html>".encode()[:PAGE]


def spans_html() -> bytes:
    """Cells that span 100 columns and 1,000 rows, each with a long text."""
    cell = f'<td colspan="100" rowspan="1000">{"word " * 2_000}</td>'
    return fill(f"<tr>{cell}</tr>", PAGE, "<html><body><table>", "</table></body></html>")


def zipped(members: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return written.getvalue()


def sheet_xlsx() -> bytes:
    import openpyxl

    written = io.BytesIO()
    openpyxl.Workbook().save(written)
    with zipfile.ZipFile(written) as book:
        members = {name: book.read(name) for name in book.namelist()}
    start = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    rows = "".join(f'<row r="{row}">{"<c><v>1</v></c>" * 50}</row>' for row in range(1, 38_000))
    return zipped({**members, "xl/worksheets/sheet1.xml": f"{start}{rows}</sheetData></worksheet>".encode()})


def paragraphs_docx() -> bytes:
    from scripts.sample_data.office import docx_bytes

    with zipfile.ZipFile(io.BytesIO(docx_bytes(["x"]))) as document:
        members = {name: document.read(name) for name in document.namelist()}
    text = members["word/document.xml"].decode()
    paragraph = "<w:p><w:r><w:t>a</w:t></w:r></w:p>"
    full = text.replace("<w:sectPr", paragraph * 700_000 + "<w:sectPr", 1)
    return zipped({**members, "word/document.xml": full.encode()})


def shapes_pptx() -> bytes:
    from scripts.sample_data.office import pptx_bytes

    return pptx_bytes([(f"Slide {number}", "text " * 100, "note") for number in range(400)])


def chapters_epub() -> bytes:
    from scripts.sample_data.office import epub_bytes

    return epub_bytes("Book", [(f"Chapter {number}", ["word " * 500] * 200) for number in range(80)])


def pages_pdf() -> bytes:
    from scripts.sample_data.office import pdf_bytes

    return pdf_bytes([[f"line {line} of page {page}" for line in range(30)] for page in range(600)])


def rows_parquet() -> bytes:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    written = io.BytesIO()
    with pq.ParquetWriter(written, pa.schema([("text", pa.string())])) as writer:
        table = pa.table({"text": ["the same long text " * 20] * 1_000_000})
        for _ in range(50):
            writer.write_table(table)
    return written.getvalue()


def pixels_png() -> bytes:
    from PIL import Image

    written = io.BytesIO()
    Image.new("RGB", (7_000, 7_000), "white").save(written, "PNG")
    return written.getvalue()


def chunks_wav() -> bytes:
    chunk = struct.pack("<4sI", b"junk", 0)
    return b"RIFF" + struct.pack("<I", LARGE) + b"WAVE" + b"fmt " + bytes(20) + chunk * (LARGE // 8)


def cells_xls() -> bytes:
    from scripts.sample_data.old_excel import xls_bytes

    return xls_bytes({"sheet": [[str(row)] * 20 for row in range(100)]}, [])


ATTACHED: dict[str, Callable[[], bytes]] = {
    "rows.csv": lambda: fill("1,2\n", LARGE),
    "columns.csv": lambda: fill(",", LARGE),
    "rows.tsv": lambda: fill("1\t2\n", LARGE),
    "nested.json": nested_json,
    "lists.json": lambda: fill("[],", LARGE, "[", "1]"),
    "objects.json": lambda: fill('{"":0},', LARGE, "[", "1]"),
    "values.jsonl": lambda: fill("[]\n", LARGE),
    "values.json": lambda: fill("{}\n", LARGE),
    "lines.txt": lambda: fill("\n", LARGE),
    "line.txt": lambda: fill("x", LARGE),
    "noise.txt": lambda: base64.encodebytes(random.Random(1).randbytes(LARGE // 77 * 57)),  # packing saves a quarter
    "elements.xml": lambda: fill("<b/>", LARGE, "<a>", "</a>"),
    "nested.xml": lambda: fill("<b>" * 200 + "</b>" * 200, LARGE, "<a>", "</a>"),
    "feed.rss": lambda: fill("<item><title>t</title></item>", LARGE, "<rss><channel>", "</channel></rss>"),
    "elements.html": lambda: fill("<b>x</b><p>", LARGE),
    "sheet.xlsx": sheet_xlsx,
    "cells.xls": cells_xls,
    "paragraphs.docx": paragraphs_docx,
    "shapes.pptx": shapes_pptx,
    "chapters.epub": chapters_epub,
    "pages.pdf": pages_pdf,
    "members.zip": lambda: zipped({f"{number}.txt": bytes(1_000) for number in range(1_990)}),
    "rows.parquet": rows_parquet,
    "pixels.png": pixels_png,
    "chunks.wav": chunks_wav,
    "noise.mp3": lambda: b"\xff\xfb\x90\x00" + bytes(LARGE),
    "text.rtf": lambda: fill(r"word \b word\b0 \par ", LARGE // 4, r"{\rtf1\ansi ", "}"),
}
PAGES: dict[str, Callable[[], bytes]] = {
    "attributes.html": attributes_html,
    "spans.html": spans_html,
    "tags.html": lambda: fill("<a>", PAGE, "<html>"),
    "paragraphs.html": lambda: fill("<p>A sentence of a page.</p>", PAGE, "<html><body>"),
    "page.json": nested_json,
    "small.json": small_json,
    "page.csv": lambda: fill("1,2\n", 29_000_000),
    "page.rss": lambda: fill("<item><title>t</title></item>", 29_000_000, "<rss><channel>", "</channel></rss>"),
    "wiki.html": lambda: ("<table><tr><td>x" * 600_000).encode(),
}
TYPES = {"html": "text/html", "json": "application/json", "csv": "text/csv", "rss": "application/rss+xml"}


async def read_input(path: Path) -> str:
    """Read it as a tool does: an attachment, or the body of a reply."""
    if path.name in ATTACHED:
        with use_attachments([path]):
            return await asyncio.to_thread(read_file, path.name)
    body = path.read_bytes()  # noqa: ASYNC240
    if path.name == "wiki.html":
        return str(await await_reader(READ_LINES, body, {"name": path.name}))
    reply = Reply(f"https://example.org/{path.name}", 200, {"content-type": TYPES[path.suffix[1:]]}, body)
    page = await read_reply(reply)
    return show_page(page, 1)


async def measure(path: Path, seconds: float) -> dict[str, object]:
    """Read once, before a question's deadline; return what it cost this process and how long its loop stood still."""
    lags = [0.0]

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            lags.append(time.perf_counter() - before - TICK_SECONDS)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(5 * TICK_SECONDS)
    lags.clear()
    before, started, cpu = begin_peak(), time.monotonic(), time.process_time()
    try:
        async with asyncio.timeout(seconds):
            with use_context(SampleContext(SampleKey("q1"), deadline=time.monotonic() + seconds)):
                text = await read_input(path)
        outcome = "read"
    except ToolError as error:
        text, outcome = str(error), "refused"
    except TimeoutError:
        text, outcome = "", "cut off"
    took = time.monotonic() - started
    ticking.cancel()
    return {
        **{"name": path.name, "outcome": outcome, "seconds": round(took, 1)},
        "own_cpu_seconds": round(time.process_time() - cpu, 2),
        **{"grown_mb": read_mb("VmHWM") - before, "lag_ms": round(1000 * max(lags), 1), "text": text[:200]},
    }


def begin_peak() -> int:
    """Begin the peak of the memory at what is in use now, and return that."""
    Path("/proc/self/clear_refs").write_text("5")
    return read_mb("VmRSS")


def read_mb(name: str) -> int:
    """Memory of this process, by the kernel's name."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=[*ATTACHED, *PAGES])
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in given.names:
            path = Path(folder) / name
            with multiprocessing.get_context("spawn").Pool(1) as makers:  # what making it takes is not measured
                makers.apply(make, (path,))
            found = {"bytes": path.stat().st_size, **asyncio.run(measure(path, given.seconds))}
            print(json.dumps(found), flush=True)
            path.unlink()


def make(path: Path) -> None:
    path.write_bytes({**ATTACHED, **PAGES}[path.name]())


if __name__ == "__main__":
    main()
