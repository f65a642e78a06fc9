"""Conversion of old Office and OpenDocument files to .docx, .pptx or .xlsx by an installed LibreOffice.

It runs as a program of the reader process, with a profile of its own that switches macros, links and connections off.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from mas.runtime.security.child_environment import build_child_environment
from mas.tools.files.document import Source
from mas.tools.results import ToolError

CONVERT_SECONDS = 100.0
PROGRAM = "soffice"
PACKAGES = "libreoffice-calc libreoffice-impress libreoffice-writer"  # of Debian
KINDS = {  # old kind → new kind
    **dict.fromkeys((".doc", ".rtf", ".odt"), ".docx"),
    **dict.fromkeys((".xls", ".ods"), ".xlsx"),
    ".ppt": ".pptx",
}
# Of the profile: no macros or active content, no links to files or pages, no connections.
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
    '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry">'
    + "".join(_ITEM.format(path, *item) for path, items in _SETTINGS.items() for item in items.items())
    + "</oor:items>"
)


def is_installed() -> bool:
    return shutil.which(PROGRAM) is not None


def save_as(source: Source, kind: str, target: str) -> bytes:
    """Return the file as LibreOffice saves it in the kind `target`, with all values of formulas.

    ToolError: LibreOffice is not installed, cannot open the file, or takes too long.
    """
    if not is_installed():
        raise ToolError(
            f"{source.name} is a {kind} file, which only LibreOffice opens, and that is not installed here "
            f"(apt-get install {PACKAGES}); go on without it."
        )
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        profile, file, made = home / "profile", home / f"file{kind}", home / "out" / f"file{target}"
        (profile / "user").mkdir(parents=True)
        (profile / "user" / "registrymodifications.xcu").write_text(_PROFILE, encoding="utf-8")
        file.write_bytes(source.data)
        command = [PROGRAM, "--headless", "--norestore", "--nolockcheck", "--nologo"]
        command += [f"-env:UserInstallation={profile.as_uri()}", "--convert-to", target[1:]]
        command += ["--outdir", str(made.parent), str(file)]
        try:
            subprocess.run(
                command, cwd=home, env=build_child_environment(), capture_output=True, timeout=CONVERT_SECONDS
            )
            return made.read_bytes()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError(f"{source.name} cannot be opened by LibreOffice; it is damaged or unusual.") from error
