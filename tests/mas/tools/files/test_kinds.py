"""Choosing a reader: content before extension, and a clear word about kinds without a reader."""

from pathlib import Path

import pytest
from openpyxl import Workbook

from mas.tools.files.document import Source
from mas.tools.files.kinds import detect_kind, read_document
from mas.tools.results import ToolError
from tests.file_bytes import zip_bytes

PNG = b"\x89PNG\r\n\x1a\n" + bytes(30)
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(30)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.xls", OLE, "an old Office file"),
        ("a.xlsx", OLE + "EncryptedPackage".encode("utf-16-le"), "protected by a password"),
        ("a.mp4", b"\x00\x00\x00\x20ftypisom" + bytes(30), "binary"),
        ("a.txt", b"\x1f\x8b\x08" + bytes(30), "binary"),
        ("a.db", b"SQLite format 3\x00" + bytes(30), "binary"),
    ],
)
def test_a_kind_without_a_reader_is_refused_with_the_reason(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ToolError, match=rf"{name} is {words}"):
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
        ("a.zip", zip_bytes({"readme.txt": b""}), ".zip"),
        ("a.csv", zip_bytes({"readme.txt": b""}), ".zip"),
        ("a", zip_bytes({"ppt/presentation.xml": b""}), ".pptx"),
        ("a.zip", zip_bytes({"xl/workbook.xml": b""}), ".xlsx"),
        ("a.ods", zip_bytes({"content.xml": b""}), ".ods"),
    ],
)
def test_content_decides_where_it_has_a_signature(name: str, data: bytes, kind: str) -> None:
    assert detect_kind(Source(name, data)) == kind


def test_a_workbook_is_read_whatever_its_name(tmp_path: Path) -> None:
    book = Workbook()
    book.worksheets[0].append(["hello"])
    for name in ("a.xlsx", "a.XLSX", "a.csv", "a"):
        book.save(tmp_path / name)
        assert read_document(tmp_path / name).summary.startswith("workbook")


@pytest.mark.parametrize("name", ["a.xlsx", "a.pdf", "a.unknown", "noextension", "a.py", "a.pdb", "a.md"])
def test_a_text_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("<p>hello</p>")
    document = read_document(tmp_path / name)
    assert document.summary.startswith("text")
    assert document.parts[0].lines[0].text == "<p>hello</p>"


@pytest.mark.parametrize("name", ["a.bin", "a.csv", "a.json", "a.docx", "a.txt"])
def test_binary_data_of_no_known_kind_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"abc\x00\x01\x02")
    with pytest.raises(ToolError, match=f"{name} is binary"):
        read_document(tmp_path / name)
