"""Choosing a reader: content before extension, and a clear word about kinds without a reader."""

import asyncio
import importlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from openpyxl import Workbook

from mas.tools.files import kinds
from mas.tools.files.document import Document, Source
from mas.tools.files.kinds import READ, detect_kind, read_content, read_document, read_in_process
from mas.tools.files.settings import FileSettings
from mas.tools.files.tasks import Answer
from mas.tools.results import ToolError
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import Resources, use_tool_context

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


Asked = list[tuple[str, str, object, dict[str, object]]]  # who, task, bytes or path, arguments


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What is read in this process and what in the other one; an answer says how many there have been."""
    found = Asked()

    def record(name: str, task: str, data: object, arguments: Mapping[str, object]) -> Answer:
        found.append((name, task, data, dict(arguments)))
        return Answer({"summary": str(len(found))}, b"packed")

    async def await_reader(*given: object) -> Answer:
        return record("await_reader", *given)  # type: ignore[arg-type]

    monkeypatch.setattr(kinds, "_cache", kinds._Cache())
    monkeypatch.setattr(kinds, "await_reader", await_reader)
    for name in ("run_task", "call_reader"):
        monkeypatch.setattr(kinds, name, lambda *given, name=name: record(name, *given))
    return found


@pytest.mark.parametrize(
    ("name", "data", "member", "here"),
    [
        ("a.csv", b"x" * 100, None, True),
        ("a.csv", b"x" * 101, None, False),
        ("a.csv", b"x", "b.txt", False),
        ("a.md", b"x", None, True),
        ("a.json", b"x", None, True),
        ("a.html", b"x", None, False),
        ("a.csv", PNG, None, False),
    ],
)
def test_a_small_file_of_a_simple_kind_is_read_in_this_process(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: Asked,
    name: str,
    data: bytes,
    member: str | None,
    here: bool,
) -> None:
    monkeypatch.setattr(kinds, "SMALL_BYTES", 100)
    path = tmp_path / name
    path.write_bytes(data)
    about = {"name": name, "member": member, "ocr_languages": "eng"}
    read_document(path, member)
    assert asked == [("run_task", READ, data, about) if here else ("call_reader", READ, path, about)]
    if member is None:
        asyncio.run(read_content(data, name))
        assert asked[1:] == [("run_task" if here else "await_reader", READ, data, about)]


def test_a_file_is_read_again_only_if_it_has_changed_or_another_part_is_wanted(tmp_path: Path, asked: Asked) -> None:
    path = tmp_path / "a.md"
    path.write_text("one")
    assert [read_document(path).facts["summary"] for _ in range(2)] == ["1", "1"]
    assert read_document(path, "member").facts["summary"] == "2"
    with use_tool_context(Resources(ToolSettings(files=FileSettings("deu")))):
        assert read_document(path).facts["summary"] == "3"
        assert asked[-1][3]["ocr_languages"] == "deu"
    os.utime(path, (1, 1))
    assert read_document(path).facts["summary"] == "4"
    path.write_text("three")
    os.utime(path, (1, 1))
    assert read_document(path).facts["summary"] == "5"


def test_a_file_may_be_as_large_as_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Asked) -> None:
    path = tmp_path / "a.md"
    path.write_text("12345")
    monkeypatch.setattr(kinds, "MAX_FILE_BYTES", 5)
    read_document(path)
    monkeypatch.setattr(kinds, "MAX_FILE_BYTES", 4)
    with pytest.raises(ToolError) as refused:
        read_document(path)
    assert str(refused.value) == "a.md has 5 bytes; read_file reads at most 4."


def test_an_error_of_the_system_does_not_show_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Asked
) -> None:
    (tmp_path / "a.md").write_text("x")

    def fail(path: Path) -> Source:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Source, "read", fail)
    with pytest.raises(ToolError) as failed:
        read_document(tmp_path / "a.md")
    assert str(failed.value) == "a.md cannot be read (Permission denied); go on without it."


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("x"), "a.png cannot be read as .png: it is damaged or unusual (KeyError)."),
        (ModuleNotFoundError("x"), "a.png cannot be read as .png: its reader is not installed (ModuleNotFoundError)."),
        (ToolError("no such sheet"), "no such sheet"),
    ],
)
def test_a_reader_that_fails_is_named_by_its_kind(error: Exception, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(source: Source) -> Document:
        raise error

    monkeypatch.setattr(kinds, "_load_reader", lambda target: read)
    with pytest.raises(ToolError) as failed:
        read_in_process(Source("a.png", PNG))
    assert str(failed.value) == said


def test_a_member_of_what_is_no_archive_is_refused() -> None:
    with pytest.raises(ToolError) as refused:
        read_in_process(Source("a.txt", b"text"), "b")
    assert str(refused.value) == "a.txt is no archive, so it has no members; call read_file without `member`."


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"RIFF\0\0\0\0WEBPVP8 ", ".webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", ".wav"),
        (b"RIFF\0\0\0\0\0WEBPVP8", ".x"),
        (b"II*\0", ".tif"),
        (b"\0%PDF-", ".x"),
        (b"GIF89a", ".gif"),
        (b"PK\x03\x04 broken", ".zip"),
        (OLE, ".ole"),
        (OLE + "Book".encode("utf-16-le"), ".xls"),
    ],
)
def test_a_signature_counts_at_its_own_place(data: bytes, kind: str) -> None:
    assert detect_kind(Source("a.x", data)) == kind


def test_a_book_is_known_by_the_type_at_its_beginning(tmp_path: Path) -> None:
    for name, kind in (("mimetype", ".epub"), ("m" * 200, ".zip")):
        with zipfile.ZipFile(tmp_path / "a.x", "w") as archive:
            archive.writestr(name, "application/epub+zip")
        assert detect_kind(Source.read(tmp_path / "a.x")) == kind


def test_a_cache_may_be_as_full_as_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "MAX_CACHED_BYTES", 20)
    cache = kinds._Cache()
    for name in "ab":
        cache.keep((name,), Answer({}, b"x" * 10))
    assert cache.find(("a",)) is not None and cache.find(("b",)) is not None


@pytest.mark.parametrize(
    ("at", "signature", "kind"),
    [
        *((0, signature, kind) for signature, kind in (
            (b"%PDF-", ".pdf"), (b"MM\x00*", ".tif"), (b"\x89PNG\r\n\x1a\n", ".png"), (b"\xff\xd8\xff", ".jpg"),
            (b"GIF87a", ".gif"), (b"ID3\x02", ".mp3"), (b"ID3\x03", ".mp3"), (b"ID3\x04", ".mp3"),
            (b"fLaC\x00", ".flac"), (b"OggS\x00", ".ogg"), (b"\x1f\x8b\x08", ".gz"), (b"7z\xbc\xaf\x27\x1c", ".7z"),
            (b"Rar!\x1a\x07", ".rar"), (b"SQLite format 3\x00", ".sqlite"), (b"PAR1", ".parquet"),
            (b"{\\rtf", ".rtf"),
        )),
        (4, b"ftyp", ".mp4"),
        (8, b"WEBPVP8", ".webp"),
        (8, b"WAVEfmt ", ".wav"),
    ],
)  # fmt: skip
def test_every_signature_is_known_at_its_place_and_nowhere_else(at: int, signature: bytes, kind: str) -> None:
    assert detect_kind(Source("a.x", b"." * at + signature + bytes(30))) == kind
    assert detect_kind(Source("a.x", b"." * (at + 1) + signature + bytes(30))) == ".x"
