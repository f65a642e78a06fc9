"""Choosing a reader: content before extension, and a clear word about kinds without a reader."""

import importlib
import zipfile
from pathlib import Path

import pytest
from openpyxl import Workbook

from mas.tools.files import kinds
from mas.tools.files.document import Document, Source
from mas.tools.files.kinds import detect_kind, read_document, read_in_process
from mas.tools.files.tasks import Answer
from mas.tools.results import ToolError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(30)


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(30)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.xls", OLE, "an old Office file"),
        ("a.xlsx", OLE + "EncryptedPackage".encode("utf-16-le"), "protected by a password"),
        ("a.mp4", b"\x00\x00\x00\x20ftypisom" + bytes(30), "a video"),
        ("a.txt", b"\x1f\x8b\x08" + bytes(30), "an archive"),
        ("a.db", b"SQLite format 3\x00" + bytes(30), "a database"),
        ("a.heic", b"\x00\x00\x00\x20ftypheic" + bytes(30), "an Apple picture"),
    ],
)
def test_a_kind_without_a_reader_is_named_with_those_that_have_one(
    tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ToolError, match=rf"{name} is {words}; read_file reads \.csv, .*\.xlsx.* plain text"):
        read_document(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.txt", PNG, ".png"),
        ("a.jpeg", b"\xff\xd8\xff" + bytes(30), ".jpeg"),
        ("a.mp3", b"ID3\x03" + bytes(30), ".mp3"),
        ("a.mp3", b"\xff\xfb\x90\x00" + bytes(30), ".mp3"),
        ("a.m4a", b"\x00\x00\x00\x20ftypM4A " + bytes(30), ".m4a"),
        ("a.csv", OLE + "Workbook".encode("utf-16-le"), ".xls"),
        ("a.txt", b"%PDF-1.7\n", ".pdf"),
        ("a.pdf", b"just text", ""),
        ("a.doc", b"{\\rtf1 x}", ".rtf"),
        ("a.xls", OLE + "WordDocument".encode("utf-16-le"), ".doc"),
        ("a.ppt", OLE + "PowerPoint Document".encode("utf-16-le"), ".ppt"),
        ("a.bin", b"PAR1" + bytes(30), ".parquet"),
    ],
)
def test_content_decides_where_it_has_a_signature(name: str, data: bytes, kind: str) -> None:
    assert detect_kind(Source(name, data)) == kind


@pytest.mark.parametrize(
    ("name", "member", "kind"),
    [
        ("a.zip", "readme.txt", ".zip"),
        ("a.docx", "word/document.xml", ".docx"),
        ("a", "ppt/presentation.xml", ".pptx"),
        ("a.zip", "xl/workbook.xml", ".xlsx"),
        ("a.ods", "content.xml", ".ods"),
        ("a.csv", "readme.txt", ".zip"),
    ],
)
def test_archives_are_told_apart(tmp_path: Path, name: str, member: str, kind: str) -> None:
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr(member, "")
    assert detect_kind(Source.read(tmp_path / name)) == kind


def test_a_workbook_is_read_whatever_its_name(tmp_path: Path) -> None:
    book = Workbook()
    book.worksheets[0].append(["hello"])
    for name in ("a.xlsx", "a.XLSX", "a.csv", "a"):
        book.save(tmp_path / name)
        assert read_document(tmp_path / name).facts["summary"].startswith("workbook")


@pytest.mark.parametrize("name", ["a.xlsx", "a.pdf", "a.unknown", "noextension", "a.py", "a.pdb", "a.md"])
def test_a_text_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("<p>hello</p>")
    document = Document.unpack(read_document(tmp_path / name).packed)
    assert document.summary.startswith("text")
    assert document.parts[0].lines[0].text == "<p>hello</p>"


@pytest.mark.parametrize("name", ["a.bin", "a.csv", "a.json", "a.docx", "a.txt"])
def test_binary_data_of_no_known_kind_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"abc\x00\x01\x02")
    with pytest.raises(ToolError, match=f"{name} is binary"):
        read_document(tmp_path / name)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="not there any more"):
        read_document(tmp_path)


def test_every_reader_in_the_table_exists() -> None:
    for target in {*kinds.READERS.values(), kinds.TEXT_READER}:
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_a_new_reader_is_one_line_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "png_size.py").write_text(
        "from mas.tools.files.document import Document, Part, Line\n"
        "def read(source):\n    return Document('image', [Part([Line(1, str(len(source.data)))])])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(kinds.READERS, ".png", "png_size:read")
    assert read_in_process(Source.read(tmp_path / "a.png")).parts[0].lines[0].text == str(len(PNG))


def test_of_the_packed_documents_the_one_used_longest_ago_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "MAX_CACHED_BYTES", 30)
    cache = kinds._Cache()
    for name in "abc":
        cache.keep((name,), Answer({}, b"x" * 10))
    assert cache.find(("a",)) is not None
    cache.keep(("d",), Answer({}, b"x" * 10))
    assert [name for name in "abcd" if cache.find((name,)) is not None] == ["a", "c", "d"]
    cache.keep(("e",), Answer({}, b"x" * 31))
    assert not any(cache.find((name,)) for name in "abcde"), "one that is too large is not kept either"
