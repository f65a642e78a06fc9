"""Office files that were made to do harm: entities, bombs."""

import io
import zipfile

import pytest

from mas.tools.files import zip_package as package
from mas.tools.files.document import Source
from mas.tools.files.kinds import read_in_process
from mas.tools.results import ToolError
from tests.file_bytes import epub_bytes, zip_bytes

LAUGHS = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
BOMB = f'<!DOCTYPE x [<!ENTITY l0 "lol">{LAUGHS}<!ENTITY passwd SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("declared", [BOMB, "<!DOCTYPE a>", "<!doctype a>", "<!ENTITY a 'b'>"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("docx", "word/document.xml"), ("pptx", "ppt/presentation.xml"), ("xlsx", "xl/workbook.xml")),
        *(("docx", "a.RELS"), ("xlsx", "a.vml")),
    ],
)
def test_an_office_file_with_entities_is_refused(kind: str, name: str, declared: str, encoding: str) -> None:
    data = zip_bytes({name: f"{declared}<x>&l9;&passwd;</x>".encode(encoding), "xl/x.xml": b"<a/>"})
    with pytest.raises(ToolError, match=rf"a\.{kind} declares entities in {name}"):
        read_in_process(Source(f"a.{kind}", data))


def test_entities_in_xml_are_shown_and_not_followed() -> None:
    document = read_in_process(Source("a.xml", f"{BOMB}<x>&l9;&passwd;</x>".encode()))
    text = "\n".join(line.text for line in document.parts[0].lines)
    assert "<x>&l9;&passwd;</x>" in text and "root:" not in text


def test_entities_in_a_book_are_not_followed() -> None:
    with zipfile.ZipFile(io.BytesIO(epub_bytes("Book", [("One", ["x"])]))) as made:
        members = {name: made.read(name) for name in made.namelist()}
    members["OEBPS/chapter1.xhtml"] = f"{BOMB}<html><body><p>&l9;&passwd; end</p></body></html>".encode()
    text = str(read_in_process(Source("a.epub", zip_bytes(members, stored="mimetype"))).parts)
    assert "end" in text and "root:" not in text and len(text) < 5_000


@pytest.mark.parametrize(("limit", "most"), [("MAX_UNPACKED_BYTES", 12), ("MAX_MEMBERS", 3)])
def test_a_package_over_a_limit_is_refused(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("a.docx", zip_bytes({"a.XML": b"<a/>", "b.rels": b"123", "c.png": b"<!DOC"}))
    monkeypatch.setattr(package, limit, most)
    assert package.list_members(source) == ["a.XML", "b.rels", "c.png"]
    monkeypatch.setattr(package, limit, most - 1)
    with pytest.raises(ToolError, match=rf"a\.docx unpacks to 12 bytes in 3 members; .*\b{most - 1}\b"):
        read_in_process(source)
