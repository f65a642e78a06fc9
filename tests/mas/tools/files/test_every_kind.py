"""Every kind of file: its fact is read, from one opening, without a connection, and damage is never a crash."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eval.benchmarks.sample_set import BundledDataset
from mas.tools.attachments import use_attachments
from mas.tools.files.document import Document, Source
from mas.tools.files.kinds import READ, read_document, read_in_process
from mas.tools.files.reader_pool import call_reader
from mas.tools.files.readers.media import NO_TESSERACT
from mas.tools.read_file import read_file
from mas.tools.results import ToolError
from tests.mas.tools.files.every_kind import EVERY_KIND, FACT, PICTURES
from tests.needs import find_missing, skip_without

OF_LIBRARIES = (".html", ".xlsx", ".docx", ".pptx", ".pdf", ".epub", ".zip", *PICTURES)
NEEDS = {**dict.fromkeys(PICTURES, "tesseract"), ".xls": "libreoffice"}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_the_fact_in_a_file_is_read(kind: str, tmp_path: Path) -> None:
    if kind in NEEDS:
        skip_without(NEEDS[kind])
    data, fact = EVERY_KIND[kind]
    file = tmp_path / f"ships{kind}"
    file.write_bytes(data)
    with use_attachments([file]):
        shown = read_file(file.name)
        assert shown.startswith(f"{file.name}: ")
        assert fact in shown
        if kind == ".zip":
            assert FACT in read_file(file.name, member="a/ships.csv")


GUARDED = """
import builtins, os, sys
opened = []
def guard(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        os.write(2, f"{event} {arguments}".encode()); os._exit(3)
    if event == "open" and isinstance(arguments[0], str) and os.path.dirname(arguments[0]) == sys.argv[1]:
        opened.append((os.path.basename(arguments[0]), arguments[1], arguments[2] & (os.O_WRONLY | os.O_RDWR)))
sys.addaudithook(guard)
from pathlib import Path
from mas.tools.files.kinds import read_in_process
from mas.tools.files.document import Source
for file in sorted(Path(sys.argv[1]).iterdir()):
    read_in_process(Source(file.name, file.read_bytes()))
assert sorted(name for name, _, _ in opened) == sorted(os.listdir(sys.argv[1])), opened
assert {(mode, written) for _, mode, written in opened} == {("r", 0)}, opened
assert "unstructured" in sys.modules and "torch" not in sys.modules and "nltk" not in sys.modules
"""


@pytest.mark.slow
def test_reading_every_kind_opens_each_file_once_and_connects_to_nothing(tmp_path: Path) -> None:
    for kind, (data, _) in EVERY_KIND.items():
        (tmp_path / f"ships{kind}").write_bytes(data)
    command = [sys.executable, "-c", GUARDED, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def damaged(kind: str, seed: int) -> bytes:
    """Cut short, or with some bytes changed."""
    rng, data = random.Random(f"{kind}/{seed}"), bytearray(EVERY_KIND[kind][0])
    if seed % 3 == 0:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(1 if seed % 3 == 1 else 30):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def read_or_refused(source: Source) -> bool:
    """Whether it was read; anything but a document or a ToolError is raised."""
    try:
        about = {"name": source.name}
        return bool(Document.from_facts(call_reader(READ, source.data, about)).parts)
    except ToolError as error:
        assert source.name in str(error) and "took more time" not in str(error)
        return False


@pytest.mark.parametrize("kind", OF_LIBRARIES)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(kind: str) -> None:
    outcomes = [read_or_refused(Source(f"ships{kind}", damaged(kind, seed))) for seed in range(6)]
    assert len(outcomes) == 6
    cut = read_or_refused(Source(f"ships{kind}", EVERY_KIND[kind][0][:40]))
    assert cut is (kind == ".html")


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_LIBRARIES)
def test_a_file_damaged_in_many_ways_never_crashes_its_reader(kind: str) -> None:
    outcomes = {read_or_refused(Source(f"ships{kind}", damaged(kind, seed))) for seed in range(6, 20)}
    assert kind == ".html" or False in outcomes


def test_a_library_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pptx", None)
    with pytest.raises(ToolError, match=r"ships\.pptx cannot be read as \.pptx: its reader is not installed"):
        read_in_process(Source("ships.pptx", EVERY_KIND[".pptx"][0]))


def test_without_tesseract_a_picture_is_described_and_the_program_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    document = read_in_process(Source("ships.png", EVERY_KIND[".png"][0]))
    assert document.summary.startswith("picture, PNG, ") and "pixels" in document.summary
    assert document.notes == [NO_TESSERACT]


def test_every_file_of_the_sample_is_read() -> None:
    samples = [each for split in ("train", "val", "test") for each in BundledDataset().load(split).samples]
    one_of_each = {each.file.suffix: each.file for each in samples if each.file}
    assert set(one_of_each) == set(EVERY_KIND)
    if find_missing("libreoffice"):
        del one_of_each[".xls"]
    for kind, file in one_of_each.items():
        document = read_document(file)
        assert document.summary.startswith("sound, ") if kind in (".wav", ".mp3", ".m4a") else document.parts
