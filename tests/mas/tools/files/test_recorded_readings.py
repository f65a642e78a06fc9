"""What agents read of a file of every kind is the same as ever, page by page, with each argument, and in each error.

After a change that is meant to alter texts, `PYTHONPATH=. python tests/mas/tools/files/test_recorded_readings.py`
records them anew; the difference of `recorded_readings.json` shows what agents then read.
"""

import hashlib
import json
from pathlib import Path

import pytest

from eval.benchmarks.sample_set import BundledDataset
from mas.tools.files import ocr
from mas.tools.files.document import Document, Source
from mas.tools.files.kinds import read_in_process
from mas.tools.files.paging import show_file
from mas.tools.results import ToolError
from scripts.sample_data.make_sample import SPLITS
from tests.mas.tools.files.every_kind import EVERY_KIND

FILE = Path(__file__).with_name("recorded_readings.json")
WANTED: list[dict[str, str | int]] = [
    *({"page": page} for page in (1, 2, 0, 99)),
    *({"sheet": sheet} for sheet in ("1", "2", "1-2", "3-1", "0", "Sheet", " sheet ", "ships")),
    *({"lines": lines} for lines in ("1", "2", "rows 2-3", "1-1000", "0", "0-1", "3-2", "9999", "-1", "x")),
    *({"search": text} for text in ("lanterns", "velmor", "e", "there is none such")),
    {"lines": "1-2", "search": "412"},
    {"sheet": "1", "lines": "2", "search": "e"},
]
MOST_OF_A_KIND = 3  # of the sample's files
MOST_CHARS = 400  # of a text that is recorded whole; of a longer one its beginning and its checksum
HEADERS = (".wav", ".mp3", ".m4a")  # read by code of ours, so that each damage has its own result
MP3_HEADERS = [
    bytes((0xFF, second, third, fourth))
    for second in (0xFB, 0xF3, 0xE3, 0xFD, 0xEB, 0xF1)
    for third, fourth in ((0x10, 0x00), (0x90, 0xC0), (0xE8, 0x40), (0x94, 0x80), (0xF0, 0x00), (0x0C, 0x00))
]


def list_sources() -> list[Source]:
    sources = [Source(f"ships{kind}", data) for kind, (data, _) in EVERY_KIND.items()]
    of_sample = [each.file for split in SPLITS for each in BundledDataset().load(split).samples if each.file]
    for kind in sorted({file.suffix for file in of_sample}):
        files = [file for file in of_sample if file.suffix == kind][:MOST_OF_A_KIND]
        sources += [Source(f"sample-{number}{kind}", file.read_bytes()) for number, file in enumerate(files)]
    for kind in HEADERS:
        data = EVERY_KIND[kind][0]
        sources += [Source(f"cut-{end}{kind}", data[:end]) for end in (4, 9, 10, 13, 20, 36, 40, 44, 45, len(data) - 1)]
    return sources + [Source(f"{header.hex()}.mp3", bytes(3) + (header + bytes(413)) * 3) for header in MP3_HEADERS]


def read(source: Source) -> dict[str, str]:
    """Return what is read, by arguments; arguments with the same result as others are left out."""
    try:
        document = read_in_process(source)
    except ToolError as error:
        return {"": f"error: {error}"}
    assert Document.from_facts(json.loads(json.dumps(document.to_facts()))) == document
    found: dict[str, str] = {}
    for wanted in WANTED if source.name.startswith(("ships", "sample-0")) else [{"page": 1}]:
        text = show(document, source.name, wanted)
        if text not in found.values():
            found["&".join(f"{key}={value}" for key, value in wanted.items())] = text
    return found


def show(document: Document, name: str, wanted: dict[str, str | int]) -> str:
    try:
        text, start = show_file(document, name, f"{name} (shown)", **wanted)  # type: ignore[arg-type]
    except ToolError as error:
        return f"error: {error}"
    header, _, rest = text.partition("\n\n")
    assert text[start:] == rest and "\n\n" not in header
    return text


def shorten(text: str) -> str:
    checksum = hashlib.sha256(text.encode()).hexdigest()[:16]
    return text if len(text) <= MOST_CHARS else f"{text[: MOST_CHARS // 2]}… {len(text)} characters, {checksum}"


def read_all() -> dict[str, dict[str, str]]:
    with pytest.MonkeyPatch.context() as patch:  # what OCR reads differs from one version of tesseract to the next
        patch.setattr(ocr, "read_text", lambda image: "412 lanterns\n" if image.width % 2 == 0 else None)
        return {source.name: {key: shorten(text) for key, text in read(source).items()} for source in list_sources()}


@pytest.mark.slow
def test_every_file_is_read_as_it_was_recorded() -> None:
    recorded, now = json.loads(FILE.read_text("utf-8")), read_all()
    assert now.keys() == recorded.keys()
    for name, texts in now.items():
        assert texts == recorded[name], name


if __name__ == "__main__":
    FILE.write_text(json.dumps(read_all(), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
