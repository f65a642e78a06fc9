"""Archives made to do harm: names, links, bombs, encryption, nesting. Ordinary members stay readable beside them."""

import io
import stat
import zipfile
from pathlib import Path

import pytest

from mas.tools.attachments import use_attachments
from mas.tools.files.document import Source
from mas.tools.files.readers import archive
from mas.tools.files.readers.archive import read, read_member
from mas.tools.read_file import read_file
from mas.tools.results import ToolError
from scripts.sample_data.office import zip_bytes

GOOD = {"tables/ships.csv": b"ship,load\nVelmor,412\n"}


def zipped(*entries: tuple[zipfile.ZipInfo | str, bytes]) -> Source:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries:
            made.writestr(name, content)
    return Source("data.zip", written.getvalue())


def link(name: str, target: str) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, target.encode()


@pytest.mark.parametrize(
    "name", ["../out.txt", "/etc/passwd", "..\\out.txt", "a\\b.txt", "C:/out.txt", "c:out.txt", "..", "a\nb.txt", ""]
)
def test_a_name_that_leads_elsewhere_is_listed_and_not_read_and_hides_no_other(name: str) -> None:
    source = zipped((zipfile.ZipInfo(name), b"harm"), ("good.txt", b"good"))
    lines = [line.text for line in read(source).parts[0].lines]
    assert "not read: its name" in lines[0] and lines[1] == "good.txt | 4"
    with pytest.raises(ToolError, match="not read: its name"):
        read_member(source, name)
    assert read_member(source, "good.txt").data == b"good"


def test_a_link_a_doubled_and_an_encrypted_member_are_not_read() -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        source = zipped(link("link.txt", "/etc/passwd"), ("twice.txt", b"one"), ("twice.txt", b"two"), ("locked", b"x"))
    data = bytearray(source.data)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.rindex(signature) + flags] |= 1
    source = Source("data.zip", bytes(data))
    for name, reason in (("link.txt", "link or a device"), ("twice.txt", "more than once"), ("locked", "encrypted")):
        with pytest.raises(ToolError, match=reason):
            read_member(source, name)
    assert sum("[not read: " in line.text for line in read(source).parts[0].lines) == 4


def test_a_member_that_holds_more_than_it_claims_is_refused() -> None:
    source = zipped(("lies.txt", b"x" * 1000))
    data = source.data.replace((1000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert data != source.data
    with pytest.raises(ToolError, match="damaged or unusual archive"):
        read_member(Source("data.zip", data), "lies.txt")


def test_archives_in_archives_are_read_to_a_depth() -> None:
    data = zip_bytes(GOOD)
    for _ in range(2):
        data = zip_bytes({"in.zip": data})
    assert read_member(Source("data.zip", data), "in.zip/in.zip/tables/ships.csv").data == GOOD["tables/ships.csv"]
    data = zip_bytes({"in.zip": data})
    with pytest.raises(ToolError, match="goes no deeper"):
        read_member(Source("data.zip", data), "in.zip/in.zip/in.zip/tables/ships.csv")


def test_a_member_is_read_by_the_same_tool_with_pages_lines_and_search(tmp_path: Path) -> None:
    rows = "".join(f"{number},name-{number}\n" for number in range(3000))
    (tmp_path / "data.zip").write_bytes(zip_bytes({"a/b.csv": b"id,name\n" + rows.encode()}))
    with use_attachments([tmp_path / "data.zip"]):
        assert 'member="name"' in read_file("data.zip")
        shown = read_file("data.zip", member="a/b.csv", page=2)
        assert shown.startswith("data.zip: a/b.csv: table with 2 columns and 3000 rows") and "page 2 of" in shown
        assert "> 1235 | 1234 | name-1234" in read_file("data.zip", member="a/b.csv", search="name-1234")
        seventh = read_file("data.zip", member="a/b.csv", lines="7")
        assert seventh.endswith("row 7 of 1-3000; page 1 of 1\n\nrow | id | name\n7 | 6 | name-6")
        with pytest.raises(ToolError, match=r"data\.zip: a/b\.csv has the rows 1 to 3000; give `lines`"):
            read_file("data.zip", member="a/b.csv", lines="4000")
        with pytest.raises(ToolError, match=r"data\.zip has no member 'b\.csv'; its members: 'a/b\.csv'"):
            read_file("data.zip", member="b.csv")


def test_what_is_no_archive_has_no_members(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with use_attachments([tmp_path / "a.csv"]), pytest.raises(ToolError, match=r"a\.csv is no archive"):
        read_file("a.csv", member="x")


def test_a_bomb_is_refused_and_every_limit_may_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zipped(("zeros", bytes(5_000_000)))
    assert len(bomb.data) < 10_000
    for look in (read, lambda source: read_member(source, "zeros")):
        with pytest.raises(ToolError, match="over 200 times its size"):
            look(bomb)
    source = zipped(("a.txt", b"abc"), ("b.txt", b"de"))
    for name, most, message in (
        ("MAX_MEMBERS", 2, "has 2 members"),
        ("MAX_UNPACKED_BYTES", 5, "unpacks to 5 bytes"),
        ("RATIO_FREE_BYTES", 3, "times its size"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(archive, "MAX_RATIO", 0)
            patch.setattr(archive, name, most)
            assert read_member(source, "a.txt").data == b"abc"
            patch.setattr(archive, name, most - 1)
            with pytest.raises(ToolError, match=message):
                read_member(source, "a.txt")
    monkeypatch.setattr(archive, "MAX_MEMBER_BYTES", 2)
    lines = [line.text for line in read(source).parts[0].lines]
    assert lines == ["a.txt | 3 [not read: it has over 2 bytes]", "b.txt | 2"]
