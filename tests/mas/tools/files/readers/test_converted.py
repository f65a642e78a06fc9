"""Files that LibreOffice converts: a stand-in for the program everywhere, the program itself in the slow tests."""

import socket
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from mas.tools.attachments import use_attachments
from mas.tools.files.document import Source
from mas.tools.files.kinds import read_in_process
from mas.tools.files.reader_pool import stop_workers
from mas.tools.files.readers import converted
from mas.tools.read_file import read_file
from mas.tools.results import ToolError
from tests.file_bytes import docx_bytes, pptx_bytes, xlsx_bytes, zip_bytes
from tests.needs import needs

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(30)
FACT = "412 lanterns"
OF_LIBREOFFICE = needs("libreoffice")
STAND_IN = """#!/bin/sh
[ -f "$HOME/no-such-folder" ] && exit 1
while [ $# -gt 1 ]; do [ "$1" = --outdir ] && out="$2"; shift; done
grep -q 'MacroSecurityLevel' "$(dirname "$1")/profile/user/registrymodifications.xcu" || exit 1
mkdir -p "$out" && cp "$(dirname "$0")/made.docx" "$out/file.docx"
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program `soffice` that gives the same document for every file."""
    folder = tmp_path / "office" / "program"
    folder.mkdir(parents=True)
    (folder / "made.docx").write_bytes(docx_bytes([f"Velmor has {FACT}."]))
    (folder / "soffice").write_text(STAND_IN)
    (folder / "soffice").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    stop_workers()  # those that began with another path
    yield folder
    stop_workers()


def show(folder: Path, name: str, data: bytes) -> str:
    (folder / name).write_bytes(data)
    with use_attachments([folder / name]):
        return read_file(name)


@pytest.mark.slow
@pytest.mark.usefixtures("stand_in")
def test_an_old_document_is_converted_in_the_reader_process_and_says_so(tmp_path: Path) -> None:
    shown = show(tmp_path, "ships.doc", OLE + "WordDocument".encode("utf-16-le"))
    assert shown.startswith("ships.doc: Word document, 1 paragraphs and table rows; page 1 of 1\n")
    assert "LibreOffice has converted it from .doc to .docx." in shown
    assert f"Velmor has {FACT}." in shown


def test_a_program_that_makes_nothing_is_a_sentence(stand_in: Path, tmp_path: Path) -> None:
    (stand_in / "soffice").write_text("#!/bin/sh\nexit 77\n")
    with pytest.raises(ToolError, match=r"ships\.odt cannot be opened by LibreOffice; it is damaged or unusual"):
        show(tmp_path, "ships.odt", zip_bytes({"content.xml": b"<a/>"}))


@pytest.mark.parametrize(
    ("name", "data", "package"),
    [
        ("a.doc", OLE + "WordDocument".encode("utf-16-le"), "libreoffice-writer"),
        ("a.ppt", OLE + "PowerPoint Document".encode("utf-16-le"), "libreoffice-impress"),
        ("a.ods", zip_bytes({"content.xml": b""}), "libreoffice-calc"),
        ("a.xls", OLE + "Workbook".encode("utf-16-le"), "libreoffice-calc"),
    ],
)
def test_without_libreoffice_the_program_and_its_package_are_named(
    name: str, data: bytes, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converted, "is_installed", lambda: False)
    with pytest.raises(ToolError, match=rf"^{name} is a \.\w+ file, which only LibreOffice opens.*{package}"):
        read_in_process(Source(name, data))


def make_old(folder: Path, kind: str) -> bytes:
    """A file of the kind, made by LibreOffice from a new one."""
    table = [["ship", "load"], ["Velmor", FACT]]
    new = {
        ".ppt": (".pptx", pptx_bytes([("Ships", "Velmor", f"It has {FACT}.")])),
        ".ods": (".xlsx", xlsx_bytes({"ships": table})),
    }
    suffix, data = new.get(kind, (".docx", docx_bytes(["Of ships."], table)))
    (folder / f"new{suffix}").write_bytes(data)
    profile = f"-env:UserInstallation={(folder / 'profile').as_uri()}"
    command = ["soffice", "--headless", profile, "--convert-to", kind[1:], "--outdir", str(folder), f"new{suffix}"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (folder / f"new{kind}").read_bytes()


@OF_LIBREOFFICE
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "words"), [(".doc", FACT), (".ods", f"2 | Velmor | {FACT}"), (".ppt", f"[speaker note] It has {FACT}.")]
)
def test_libreoffice_converts_a_file_of_each_of_its_programs(kind: str, words: str, tmp_path: Path) -> None:
    shown = show(tmp_path, f"ships{kind}", make_old(tmp_path, kind))
    assert f"LibreOffice has converted it from {kind} to " in shown
    assert words in shown


LINKING = """<?xml version="1.0" encoding="UTF-8"?><office:document-content
 xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"
 office:version="1.2"><office:body><office:text><text:p>Velmor has {fact}.</text:p>
<text:p><draw:frame><draw:image xlink:href="{url}picture.png" xlink:type="simple" xlink:show="embed"
 xlink:actuate="onLoad"/></draw:frame></text:p>
<text:section text:name="s"><text:section-source xlink:href="{file}" xlink:type="simple"/><text:p>old</text:p>
</text:section></office:text></office:body></office:document-content>"""
MANIFEST = """<?xml version="1.0"?><manifest:manifest
 xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">
<manifest:file-entry manifest:full-path="/" manifest:media-type="application/vnd.oasis.opendocument.text"/>
<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/></manifest:manifest>"""


@OF_LIBREOFFICE
@pytest.mark.slow
@pytest.mark.parametrize("jail", [True, False])
def test_libreoffice_follows_no_link(jail: bool, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the secret of the house")
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked: list[object] = []
        Thread(target=lambda: asked.append(server.accept()), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        text = LINKING.format(fact=FACT, url=url, file=(tmp_path / "secret.txt").as_uri())
        with zipfile.ZipFile(tmp_path / "links.odt", "w") as made:
            made.writestr("mimetype", "application/vnd.oasis.opendocument.text")
            made.writestr("content.xml", text)
            made.writestr("META-INF/manifest.xml", MANIFEST)
        data = (tmp_path / "links.odt").read_bytes()
        shown = show(tmp_path, "links.odt", data) if jail else str(read_in_process(Source("links.odt", data)))
    assert f"Velmor has {FACT}." in shown
    assert "secret of the house" not in shown
    assert not asked
