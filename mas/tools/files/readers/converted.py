"""Readers of .doc, .ppt, .odt, .ods and .rtf, which LibreOffice, if it is installed, converts to .docx, .pptx or .xlsx.

It runs as a program of the reader process, with a profile of its own that switches macros, links and connections off.

    convert(Source("talk.ppt", data), ".ppt", ".pptx").data      # the bytes of a .pptx
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mas.runtime.security.child_environment import build_child_environment
from mas.tools.files.document import Document, Source
from mas.tools.files.readers import office, text
from mas.tools.files.zip_package import MAX_UNPACKED_BYTES
from mas.tools.results import ToolError

CONVERT_SECONDS = 100.0
PROGRAM = "soffice"
MISSING = (
    "{name} is {kind}, which only LibreOffice opens, and that is not installed here (apt-get install {package}); "
    "go on without it."
)
RTF_MISSING = (
    "It is shown with its formatting codes: LibreOffice, which shows the text alone, is not installed "
    "(apt-get install libreoffice-writer)."
)
# Settings of the profile: no macros or other active content, no links to files or pages, every connection to nowhere.
_SETTINGS = (
    ("Office.Common/Security/Scripting", "MacroSecurityLevel", "3"),
    ("Office.Common/Security/Scripting", "DisableMacrosExecution", "true"),
    ("Office.Common/Security/Scripting", "DisableActiveContent", "true"),
    ("Office.Common/Security/Scripting", "BlockUntrustedRefererLinks", "true"),
    ("Office.Writer/Content/Update", "Link", "2"),
    ("Office.Calc/Content/Update", "Link", "1"),
    ("Inet/Settings", "ooInetProxyType", "1"),
    *(
        setting
        for scheme in ("HTTP", "HTTPS", "FTP")
        for setting in (
            ("Inet/Settings", f"ooInet{scheme}ProxyName", "127.0.0.1"),
            ("Inet/Settings", f"ooInet{scheme}ProxyPort", "9"),
        )
    ),
)
_PROFILE = (
    '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry" '
    'xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
    + "".join(
        f'<item oor:path="/org.openoffice.{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop>'
        "</item>"
        for path, name, value in _SETTINGS
    )
    + "</oor:items>"
)


def is_installed() -> bool:
    """Return True if LibreOffice is installed."""
    return shutil.which(PROGRAM) is not None


def convert(source: Source, kind: str, target: str) -> Source:
    """Return the file as one of the kind `target`.

    Raises:
        ToolError: LibreOffice cannot open it, or takes too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "profile" / "user").mkdir(parents=True)
        (home / "profile" / "user" / "registrymodifications.xcu").write_text(_PROFILE, encoding="utf-8")
        (home / f"file{kind}").write_bytes(source.data)
        command = [PROGRAM, "--headless", "--norestore", "--nolockcheck", "--nologo"]
        command += [f"-env:UserInstallation={(home / 'profile').as_uri()}"]
        command += ["--convert-to", target.removeprefix("."), "--outdir", str(home / "out"), str(home / f"file{kind}")]
        try:
            subprocess.run(
                command,
                cwd=home,
                env=build_child_environment(),
                capture_output=True,
                timeout=CONVERT_SECONDS,
                check=False,
            )
            made = home / "out" / f"file{target}"
            if made.stat().st_size > MAX_UNPACKED_BYTES:
                raise ToolError(f"{source.name} becomes larger than {MAX_UNPACKED_BYTES} bytes; it is not read.")
            return replace(source, data=made.read_bytes())
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError(f"{source.name} cannot be opened by LibreOffice; it is damaged or unusual.") from error


@dataclass(frozen=True)
class Conversion:
    """Reader of one kind, by another kind's reader."""

    kind: str
    description: str
    target: str
    package: str  # one of PACKAGES
    reader: Callable[[Source], Document]

    def __call__(self, source: Source) -> Document:
        """Return the converted file's document."""
        if is_installed():
            document = self.reader(convert(source, self.kind, self.target))
            note = f"LibreOffice has converted it from {self.kind} to {self.target}."
            return replace(document, notes=[note, *document.notes])
        if self.kind == ".rtf":
            document = text.read(source)
            return replace(document, notes=[*document.notes, RTF_MISSING], is_incomplete=True)
        raise ToolError(MISSING.format(name=source.name, kind=self.description, package=self.package))


def _read_workbook(source: Source) -> Document:
    from mas.tools.files.readers import excel  # with its library

    return excel.read(source)


PACKAGES = frozenset(("libreoffice-calc", "libreoffice-impress", "libreoffice-writer"))  # of Debian

read_doc = Conversion(".doc", "an old Word document", ".docx", "libreoffice-writer", office.read_word)
read_rtf = Conversion(".rtf", "a rich text document", ".docx", "libreoffice-writer", office.read_word)
read_odt = Conversion(".odt", "an OpenDocument text", ".docx", "libreoffice-writer", office.read_word)
read_ods = Conversion(".ods", "an OpenDocument spreadsheet", ".xlsx", "libreoffice-calc", _read_workbook)
read_ppt = Conversion(".ppt", "an old PowerPoint presentation", ".pptx", "libreoffice-impress", office.read_slides)
