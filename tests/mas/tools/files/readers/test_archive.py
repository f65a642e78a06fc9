"""Archives made to do harm: names, links, bombs, encryption. Ordinary members stay readable beside them."""

import io
import stat
import zipfile
from pathlib import Path

import pytest

from mas.tools.attachments import use_attachments
from mas.tools.files import zip_package
from mas.tools.files.document import Source
from mas.tools.files.kinds import read_in_process
from mas.tools.files.zip_package import read_archive, read_member
from mas.tools.read_file import read_file
from mas.tools.results import ToolError
from tests.file_bytes import zip_bytes


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


@pytest.mark.parametrize("name", ["../out.txt", "/etc/passwd", "C:/out.txt", "..", "a\nb.txt"])
def test_a_name_that_leads_elsewhere_is_a_name_as_any_other(name: str) -> None:
    source = zipped((zipfile.ZipInfo(name), b"harm"), ("good.txt", b"good"))
    listed = [line.text for line in read_archive(source).parts[0].lines]
    assert listed == [f"{name} | 4".replace("\n", r"\n"), "good.txt | 4"]
    assert read_member(source, name).data == b"harm", "of the archive, not of this machine"


def test_a_link_is_read_as_the_text_that_it_is_and_an_encrypted_member_not_at_all() -> None:
    source = zipped(link("link.txt", "/etc/passwd"), ("locked", b"x"))
    data = bytearray(source.data)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.rindex(signature) + flags] |= 1
    source = Source("data.zip", bytes(data))
    assert read_member(source, "link.txt").data == b"/etc/passwd"
    with pytest.raises(ToolError, match="it is encrypted"):
        read_member(source, "locked")


def test_a_member_that_holds_more_than_it_claims_is_refused() -> None:
    source = zipped(("lies.txt", b"x" * 1000))
    data = source.data.replace((1000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert data != source.data
    with pytest.raises(ToolError, match="damaged or unusual"):
        read_in_process(Source("data.zip", data), "lies.txt")


def test_a_member_is_read_by_the_same_tool_with_pages_and_search(tmp_path: Path) -> None:
    rows = "".join(f"{number},name-{number}\n" for number in range(3000))
    (tmp_path / "data.zip").write_bytes(zip_bytes({"a/b.csv": b"id,name\n" + rows.encode()}))
    with use_attachments([tmp_path / "data.zip"]):
        assert 'member="name"' in read_file("data.zip")
        shown = read_file("data.zip", member="a/b.csv", page=2)
        assert shown.startswith("data.zip: a/b.csv: table with 2 columns and 3000 rows") and "page 2 of" in shown
        assert "> 1235 | 1234 | name-1234" in read_file("data.zip", member="a/b.csv", search="name-1234")
        with pytest.raises(ToolError, match=r"data\.zip has no member 'b\.csv'; its members: 'a/b\.csv'"):
            read_file("data.zip", member="b.csv")


def test_an_archive_in_an_archive_is_listed_and_the_note_says_that_its_members_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "out.zip").write_bytes(zip_bytes({"in.zip": zip_bytes({"in.txt": b"x"})}))
    with use_attachments([tmp_path / "out.zip"]):
        shown = read_file("out.zip", member="in.zip")
    assert "in.txt | 1" in shown and "no member of an archive among them" in shown


def test_arguments_that_a_file_has_no_use_for_are_left_out_with_a_note(tmp_path: Path) -> None:
    """Small models give every argument a value, and go on with the same call after a refusal."""
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with use_attachments([tmp_path / "a.csv"]):
        shown = read_file("a.csv", member="x", sheet="Sheet1")
    assert shown.startswith("a.csv: table with 2 columns")
    assert "It is no archive: `member` was left out." in shown and "It has no sheets: `sheet` was left out." in shown
    assert shown.endswith("row | a | b\n1 | 1 | 2")


def test_a_bomb_is_refused_and_every_limit_may_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    source = zipped(("a.txt", b"abc"), ("b.txt", b"de"))
    for name, most in (("MAX_MEMBERS", 2), ("MAX_UNPACKED_BYTES", 5)):
        with monkeypatch.context() as patch:
            patch.setattr(zip_package, name, most)
            assert read_member(source, "a.txt").data == b"abc"
            patch.setattr(zip_package, name, most - 1)
            for look in (read_archive, lambda source: read_member(source, "a.txt")):
                with pytest.raises(ToolError, match="unpacks to 5 bytes in 2 members"):
                    look(source)
