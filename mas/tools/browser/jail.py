"""Jail of the browser's server, by bubblewrap: no network but two doors, no files but programs, no other process.

jail = find_jail("/usr/bin/chromium", folder)               # NotAvailableError: why there can be none here
command = jail.build_command(folder, listener, 3000, [Path("/opt/mcp")], ["node", "/opt/mcp/cli.js", …])

Chromium keeps its own sandbox within it, also when the harness runs as root. The doors: `mas.tools.browser.doors`.
"""

import json
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mas.runtime.security.bind_mounts import ROOT_LINKS, bind_links
from mas.runtime.security.child_environment import build_child_environment
from mas.tools.sandbox.bubblewrap import find_installation, find_program
from mas.tools.sandbox.process import find_failure
from mas.tools.sandbox.session import NotAvailableError

PROXY_PORT = 1024  # of the jail's own loopback
PROXY_SOCKET = "proxy.sock"  # in the folder that is the jail's /tmp
PROBE_SECONDS = 60.0
NEVER = "about:blank"
_DOORS = Path(__file__).with_name("doors.py")
_DATA = (
    *("/opt", "/var/cache/fontconfig", "/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/chromium", "/etc/chromium.d", "/etc/mime.types"),
)


def build_jail_environment() -> dict[str, str]:
    """Return the environment of all programs in the jail."""
    return build_child_environment("FONTCONFIG_PATH", HOME="/tmp", TMPDIR="/tmp")


@dataclass(frozen=True)
class Jail:
    """A jail that Chromium runs in on this machine."""

    bwrap: str

    def build_command(
        self, folder: Path, listener: socket.socket, port: int, programs: Sequence[Path], server: Sequence[str]
    ) -> list[str]:
        """Return the command of the server.

        Args:
            folder: the jail's /tmp, with the socket file of the proxy.
            listener: bound socket that clients connect to; the process must inherit it.
            port: port of loopback at which the server listens in the jail.
            programs: files and folders that the server consists of.
            server: its command; its browser must use the proxy at `PROXY_PORT` of loopback.
        """
        settings = {
            **{"listener": listener.fileno(), "port": port, "proxy_port": PROXY_PORT, "proxy": f"/tmp/{PROXY_SOCKET}"},
            "environment": build_jail_environment(),
        }
        needed = [*map(str, programs), *find_installation(), str(_DOORS)]
        shown = [path for path in needed if not path.startswith("/usr/")]
        return [
            *build_walls(self.bwrap, folder),
            *(word for path in shown for word in ("--ro-bind", path, path)),
            *("--remount-ro", "/", "--chdir", "/tmp", "--"),
            *(str(Path(sys.executable).resolve()), "-s", "-S", "-B", "-P", str(_DOORS), json.dumps(settings), *server),
        ]


def build_walls(bwrap: str, folder: Path) -> list[str]:
    """Return the beginning of a command: the system's programs and libraries read-only, and `folder` as /tmp."""
    command = [
        *(bwrap, "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--uid", "65534", "--gid", "65534", "--die-with-parent", "--new-session"),
        *("--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev", "--ro-bind", "/usr", "/usr"),
    ]
    command += bind_links(ROOT_LINKS)
    for path in _DATA:
        command += ["--ro-bind-try", path, path]
    return [*command, "--bind", str(folder), "/tmp"]


def find_jail(chromium: str, folder: Path) -> Jail:
    """Return the jail, after Chromium has opened an empty page in it, which takes a second or two.

    Args:
        chromium: path of the program.
        folder: an empty folder, for what it writes.

    Raises:
        NotAvailableError: bubblewrap is missing, or Chromium does not run in it; one sentence.
    """
    bwrap, _ = find_program()
    page = [chromium, "--headless", "--disable-gpu", "--no-first-run", "--dump-dom", NEVER]
    command = [*build_walls(bwrap, folder), "--", *page]
    if cause := find_failure(command, "<html>", PROBE_SECONDS, env=build_jail_environment()):
        raise NotAvailableError(f"bubblewrap cannot run Chromium here ({cause}).")
    return Jail(bwrap)
