"""Inputs of every kind that cost a reader the most, and what reading one costs the process of the run.

    python tests/hostile_inputs.py rows.csv attributes.html --seconds 20
    # {"bytes": 48000000, "name": "rows.csv", "outcome": "read", "seconds": 14.2, "grown_mb": 7, …}

Each input is below 50 MB (a page below the limits of `tools.web`). Reading one ends after `seconds` at the latest.
"""

import argparse
import asyncio
import io
import json
import multiprocessing
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import httpx

from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.tools.attachments import use_attachments
from mas.tools.read_file import read_file
from mas.tools.results import ToolError
from mas.tools.web.page_view import show_page
from mas.tools.web.read_page import read_reply

LARGE = 48_000_000
PAGE = 9_900_000  # less than a page may have


def fill(piece: str, size: int, start: str = "", end: str = "") -> bytes:
    return (start + piece * ((size - len(start) - len(end)) // len(piece)) + end).encode()


def nested_json() -> bytes:
    """One value a line, 990 levels deep: 1.2 MB become 2.2 GB of spaces when they are indented."""
    return b"[" * 900 + b"1," * 560_000 + b"1" + b"]" * 900


def attributes_html() -> bytes:
    """One element with a million attributes, which libxml2 compares with each other."""
    names = " ".join(f"a{number:x}" for number in range(1_000_000))
    return f"<html><body><p {names}>x</p></body></html>".encode()[:PAGE]


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


def shapes_pptx() -> bytes:
    from tests.file_bytes import pptx_bytes

    return pptx_bytes([(f"Slide {number}", "text " * 100, "note") for number in range(400)])


def chunks_wav() -> bytes:
    chunk = struct.pack("<4sI", b"junk", 0)
    return b"RIFF" + struct.pack("<I", LARGE) + b"WAVE" + b"fmt " + bytes(20) + chunk * (LARGE // 8)


ATTACHED: dict[str, Callable[[], bytes]] = {
    "rows.csv": lambda: fill("1,2\n", LARGE),
    "nested.json": nested_json,
    "values.jsonl": lambda: fill("[]\n", LARGE),
    "line.txt": lambda: fill("x", LARGE),
    "nested.xml": lambda: fill("<b>" * 200 + "</b>" * 200, LARGE, "<a>", "</a>"),
    "sheet.xlsx": sheet_xlsx,
    "shapes.pptx": shapes_pptx,
    "members.zip": lambda: zipped({f"{number}.txt": bytes(1_000) for number in range(1_990)}),
    "chunks.wav": chunks_wav,
}
PAGES: dict[str, Callable[[], bytes]] = {
    "attributes.html": attributes_html,
    "paragraphs.html": lambda: fill("<p>A sentence of a page.</p>", PAGE, "<html><body>"),
    "page.csv": lambda: fill("1,2\n", 29_000_000),
}
TYPES = {"html": "text/html", "csv": "text/csv"}


async def read_input(path: Path) -> str:
    """Read it as a tool does: an attachment, or the body of a reply."""
    if path.name in ATTACHED:
        with use_attachments([path]):
            return await asyncio.to_thread(read_file, path.name)
    body = path.read_bytes()  # noqa: ASYNC240
    reply = httpx.Response(
        200,
        headers={"content-type": TYPES[path.suffix[1:]]},
        content=body,
        request=httpx.Request("GET", f"https://example.org/{path.name}"),
    )
    page = await read_reply(reply)
    return show_page(page, 1)


async def measure(path: Path, seconds: float) -> dict[str, object]:
    """Read once, before a question's deadline; return what it cost this process."""
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
    return {
        **{"name": path.name, "outcome": outcome, "seconds": round(took, 1)},
        "own_cpu_seconds": round(time.process_time() - cpu, 2),
        **{"grown_mb": read_mb("VmHWM") - before, "text": text[:200]},
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
            for step in (make, show):  # in a process of its own: nothing is left of what the one before took
                process = multiprocessing.get_context("fork").Process(target=step, args=(path, given.seconds))
                process.start()
                process.join()
            path.unlink()


def make(path: Path, seconds: float) -> None:
    path.write_bytes({**ATTACHED, **PAGES}[path.name]())


def show(path: Path, seconds: float) -> None:
    print(json.dumps({"bytes": path.stat().st_size, **asyncio.run(measure(path, seconds))}), flush=True)


if __name__ == "__main__":
    main()
