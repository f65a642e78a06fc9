"""Command that shuts the reader process in with bubblewrap, where it is installed.

Inside there are Python, the harness's packages, the programs that read files and their libraries, all read-only, and a
folder in memory. There is no network, no other process, and no file of the user's.

    [*build_jail(), sys.executable, "-m", "mas.tools.files.reader_process"]      # without bubblewrap the list is empty
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from mas.runtime.security.bind_mounts import ROOT_LINKS, bind_links

PROGRAMS = ("tesseract", "soffice")
SCRATCH_BYTES = 512 * 1024 * 1024  # of /tmp, in memory
SYSTEM = (
    *("/usr", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"),
    *("/etc/fonts", "/var/cache/fontconfig", "/etc/libreoffice", "/var/lib/libreoffice"),
)
PACKAGE = Path(__file__).resolve().parents[2]  # of the harness: mas/


def build_jail() -> list[str]:
    """Return the words before the program's own; none where bubblewrap is not installed."""
    bwrap = shutil.which("bwrap") if sys.platform == "linux" else None
    if bwrap is None:
        return []
    return [
        *(bwrap, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "reader"),
        *("--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"),
        *_bind_system(),
        *(word for path in _list_folders() for word in ("--ro-bind-try", path, path)),
        *("--remount-ro", "/", "--chdir", "/tmp", "--setenv", "HOME", "/tmp", "--setenv", "TMPDIR", "/tmp", "--"),
    ]


def _bind_system() -> Iterator[str]:
    for path in SYSTEM:
        yield from ("--ro-bind-try", path, path)
    yield from bind_links(ROOT_LINKS)


def _list_folders() -> list[str]:
    """Return the folders of Python, its packages and the programs, as far as they are outside /usr."""
    packages = [path for path in map(Path, sys.path) if path.name in ("site-packages", "dist-packages")]
    found = [Path(sys.prefix), Path(sys.base_prefix), *packages, PACKAGE, *_list_program_folders()]
    if data := os.environ.get("TESSDATA_PREFIX"):
        found.append(Path(data))
    return list(dict.fromkeys(str(path) for path in found if not path.is_relative_to("/usr") and path != Path("/")))


def _list_program_folders() -> Iterator[Path]:
    for name in PROGRAMS:
        if path := shutil.which(name):
            yield Path(path).parent
            real = Path(path).resolve()
            if not real.is_relative_to("/usr"):
                yield real.parent.parent  # such as /opt/libreoffice25.8, of its `program/soffice`
