"""Readers of .doc, .ppt, .odt, .ods and .rtf, which LibreOffice, if it is installed, converts to .docx, .pptx or .xlsx.

It runs as a program of the reader process, with a profile of its own that switches macros, links and connections off.

    convert(Source("talk.ppt", data), ".ppt", ".pptx").data      # the bytes of a .pptx
"""

import shutil
import subprocess
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from mas.runtime.security.child_environment import build_child_environment
from mas.tools.files.document import Document, Source
from mas.tools.files.readers import office
from mas.tools.files.zip_package import MAX_UNPACKED_BYTES
from mas.tools.results import ToolError

CONVERT_SECONDS = 100.0
PROGRAM = "soffice"
PACKAGES = {".docx": "libreoffice-writer", ".xlsx": "libreoffice-calc", ".pptx": "libreoffice-impress"}  # of Debian
# Of the profile: no macros or other active content, no links to files or pages, every connection to nowhere.
_SETTINGS = {
    "Office.Common/Security/Scripting": {
        "MacroSecurityLevel": "3",
        **dict.fromkeys(("DisableMacrosExecution", "DisableActiveContent", "BlockUntrustedRefererLinks"), "true"),
    },
    "Office.Writer/Content/Update": {"Link": "2"},
    "Office.Calc/Content/Update": {"Link": "1"},
    "Inet/Settings": {
        "ooInetProxyType": "1",
        **{f"ooInet{scheme}ProxyName": "127.0.0.1" for scheme in ("HTTP", "HTTPS", "FTP")},
        **{f"ooInet{scheme}ProxyPort": "9" for scheme in ("HTTP", "HTTPS", "FTP")},
    },
}
_ITEM = '<item oor:path="/org.openoffice.{}"><prop oor:name="{}" oor:op="fuse"><value>{}</value></prop></item>'
_PROFILE = (
    '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry" '
    'xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
    + "".join(_ITEM.format(path, *item) for path, items in _SETTINGS.items() for item in items.items())
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
        profile, file, out = home / "profile", home / f"file{kind}", home / "out"
        (profile / "user").mkdir(parents=True)
        (profile / "user" / "registrymodifications.xcu").write_text(_PROFILE, encoding="utf-8")
        file.write_bytes(source.data)
        command = [PROGRAM, "--headless", "--norestore", "--nolockcheck", "--nologo"]
        command += [f"-env:UserInstallation={profile.as_uri()}", "--convert-to", target[1:], "--outdir", str(out)]
        try:
            subprocess.run(
                [*command, str(file)],
                cwd=home,
                env=build_child_environment(),
                capture_output=True,
                timeout=CONVERT_SECONDS,
                check=False,
            )
            made = out / f"file{target}"
            if made.stat().st_size > MAX_UNPACKED_BYTES:
                raise ToolError(f"{source.name} becomes larger than {MAX_UNPACKED_BYTES} bytes; it is not read.")
            return replace(source, data=made.read_bytes())
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError(f"{source.name} cannot be opened by LibreOffice; it is damaged or unusual.") from error


def _read(source: Source, what: str, kind: str, target: str) -> Document:
    if not is_installed():
        raise ToolError(
            f"{source.name} is {what}, which only LibreOffice opens, and that is not installed here (apt-get install "
            f"{PACKAGES[target]}); go on without it."
        )
    document = _READERS[target](convert(source, kind, target))
    return replace(document, notes=[f"LibreOffice has converted it from {kind} to {target}.", *document.notes])


def _read_workbook(source: Source) -> Document:
    from mas.tools.files.readers import excel  # with its library

    return excel.read(source)


_READERS = {".docx": office.read_word, ".pptx": office.read_slides, ".xlsx": _read_workbook}

read_doc = partial(_read, what="an old Word document", kind=".doc", target=".docx")
read_rtf = partial(_read, what="a rich text document", kind=".rtf", target=".docx")
read_odt = partial(_read, what="an OpenDocument text", kind=".odt", target=".docx")
read_ods = partial(_read, what="an OpenDocument spreadsheet", kind=".ods", target=".xlsx")
read_ppt = partial(_read, what="an old PowerPoint presentation", kind=".ppt", target=".pptx")
