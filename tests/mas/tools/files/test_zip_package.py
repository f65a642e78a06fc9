"""Office files that were made to do harm: entities, bombs."""

import pytest

from mas.tools.files import zip_package as package
from mas.tools.files.document import Source
from mas.tools.files.kinds import read_in_process
from mas.tools.files.readers.archive import read as read_archive
from mas.tools.files.zip_package import list_members, parse_xml
from mas.tools.results import ToolError
from scripts.sample_data.office import epub_bytes, zip_bytes
from tests.mas.tools.files.every_kind import EVERY_KIND

LAUGHS = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
BOMB = f'<!DOCTYPE x [<!ENTITY l0 "lol">{LAUGHS}<!ENTITY passwd SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    ("kind", "name"), [("docx", "word/document.xml"), ("pptx", "ppt/presentation.xml"), ("xlsx", "xl/workbook.xml")]
)
def test_an_office_file_with_entities_is_refused(kind: str, name: str, encoding: str) -> None:
    data = zip_bytes({name: f"{BOMB}<x>&l9;&passwd;</x>".encode(encoding)})
    with pytest.raises(ToolError, match=rf"a\.{kind} declares entities in {name}"):
        read_in_process(Source(f"a.{kind}", data))


def test_entities_in_xml_are_shown_and_not_followed() -> None:
    document = read_in_process(Source("a.xml", f"{BOMB}<x>&l9;&passwd;</x>".encode()))
    text = "\n".join(line.text for line in document.parts[0].lines)
    assert "<x>&l9;&passwd;</x>" in text and "root:" not in text
    assert "shown, not followed" in document.notes[0]


def test_entities_in_a_book_are_not_followed() -> None:
    data = epub_bytes("Book", [("One", ["x"])])
    source = Source("a.epub", data)
    members = {line.text.split(" | ")[0]: b"" for line in read_archive(source).parts[0].lines}
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as made:
        members = {name: made.read(name) for name in members}
    members["OEBPS/chapter1.xhtml"] = f"{BOMB}<html><body><p>&l9;&passwd; end</p></body></html>".encode()
    text = str(read_in_process(Source("a.epub", zip_bytes(members, stored="mimetype"))).parts)
    assert "end" in text and "root:" not in text and len(text) < 5_000
    parsed_text = "".join(parse_xml(f"{BOMB}<x>&passwd;end</x>".encode()).itertext())
    assert "root:" not in parsed_text


def test_a_package_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MAX_XML_BYTES", 100)
    with pytest.raises(ToolError, match="read_file reads up to"):
        list_members(Source("a.docx", EVERY_KIND[".docx"][0]))


@pytest.mark.parametrize(("limit", "most"), [("MAX_UNPACKED_BYTES", 12), ("MAX_XML_BYTES", 7), ("MAX_MEMBERS", 3)])
def test_a_package_may_be_as_large_as_each_limit(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("a.docx", zip_bytes({"a.XML": b"<a/>", "b.rels": b"123", "c.png": b"<!DOC"}))
    monkeypatch.setattr(package, limit, most)
    assert list_members(source) == ["a.XML", "b.rels", "c.png"]
    monkeypatch.setattr(package, limit, most - 1)
    with pytest.raises(ToolError) as refused:
        list_members(source)
    limits = {"MAX_UNPACKED_BYTES": 268_435_456, "MAX_XML_BYTES": 33_554_432, "MAX_MEMBERS": 5_000, limit: most - 1}
    assert str(refused.value) == (
        "a.docx unpacks to 12 bytes, 7 of them XML, in 3 members; read_file reads up to "
        f"{limits['MAX_UNPACKED_BYTES']}, {limits['MAX_XML_BYTES']} and {limits['MAX_MEMBERS']}."
    )


@pytest.mark.parametrize("name", ["a.xml", "a.RELS", "a.vml"])
@pytest.mark.parametrize("xml", ["<!DOCTYPE a>", "<!doctype a>", "<!ENTITY a 'b'>"])
@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le"])
def test_a_package_that_declares_entities_is_refused(name: str, xml: str, codec: str) -> None:
    source = Source("a.docx", zip_bytes({"fine.xml": b"<a/>", name: f"<?xml?>{xml}".encode(codec)}))
    with pytest.raises(ToolError) as refused:
        list_members(source)
    assert str(refused.value) == f"a.docx declares entities in {name}; such a file is not read."


def test_a_damaged_package_is_named_and_texts_are_those_of_the_holders() -> None:
    with pytest.raises(ToolError) as refused:
        list_members(Source("a.docx", b"PK nothing"))
    assert str(refused.value) == "a.docx is damaged (BadZipFile); it cannot be read."
    xml = b"<w:a xmlns:w='urn:w'><w:p><w:t>one </w:t><w:x>no</w:x><w:t>two</w:t></w:p><w:p><w:t> </w:t></w:p></w:a>"
    source = Source("a.docx", zip_bytes({"a.xml": xml}))
    assert package.read_texts(source, "a.xml", "p") == ["one two"]
    assert package.read_texts(source, "b.xml", "p") == []
