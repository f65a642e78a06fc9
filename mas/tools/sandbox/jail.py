"""Isolation in namespaces of their own, by bubblewrap (https://github.com/containers/bubblewrap).

The code sees the shared libraries, Python and its packages, and the question's files, all read-only, and two small
writable folders in memory. It has no network, no other process, no /proc, no program to start but Python, and no
environment. What each part protects from, and what tests have shown: docs/explanation/sandbox.md.
"""

import functools
import json
import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mas.tools.sandbox import seccomp
from mas.tools.sandbox.session import (
    MAX_CPU_SECONDS,
    MAX_MESSAGE_BYTES,
    Files,
    NotAvailableError,
    Reply,
    Session,
    SessionLostError,
)
from mas.tools.settings import BUBBLEWRAP, SandboxSettings

START_SECONDS = 20.0  # on a busy machine; a tenth of a second elsewhere
OPEN_FILES = 64
SCRATCH_BYTES = 64 << 20  # of the working folder, and again of /tmp; also the largest file
LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib", "/usr/local/lib64")
LINKS = ("/lib", "/lib32", "/lib64", "/libx32")  # to those, on today's systems
DATA = ("/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/alternatives")  # the last: numpy's BLAS, where Debian has it
FOLDERS = ("/tmp", "/scratch")  # writable, in memory
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
ENVIRONMENT = {
    **{"PATH": "/usr/bin", "HOME": "/scratch", "TMPDIR": "/tmp", "USER": "sandbox", "LANG": "C.UTF-8", "TZ": "UTC"},
    **{"LD_LIBRARY_PATH": "/python/lib:/python/lib64"},  # else a shared libpython is the system's older one
    **{"PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "2"},  # the same order of a set every time; less address space
    **{"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
}


class Jail:
    """Isolation by bubblewrap."""

    name = BUBBLEWRAP
    description = "bubblewrap runs Python in a jail"

    async def open(self, files: Files, settings: SandboxSettings) -> "JailSession":
        """Start a session.

        Raises:
            NotAvailableError: it does not start; the message has what bubblewrap said.
        """
        try:
            session = JailSession(_start(files, settings), settings.memory_mb)
        except OSError as error:  # no process or pipe is free
            raise NotAvailableError(f"bubblewrap does not start ({error.strerror}).") from error
        try:
            await session.wait_until_ready()
        except (SessionLostError, OSError, IndexError) as error:  # such as a container without user namespaces
            session.close()
            raise NotAvailableError(
                f"bubblewrap 0.8 or newer cannot isolate here ({error}); allow user namespaces on this machine or "
                "container."
            ) from error
        return session


class JailSession(Session):
    """Session with worker.py in the jail; it is stopped between two calls, when nobody watches its limits."""

    process: "subprocess.Popen[bytes]"

    async def wait_until_ready(self) -> None:
        """Wait for the first message; stop the jail's first process, which bubblewrap has started."""
        said = await self.watch(self._receive, START_SECONDS, "the start took")
        if b'"ready"' not in said:
            raise SessionLostError(said.decode("utf-8", "replace").strip()[:200])
        self.code_pid = _find_child(self.process.pid)
        self.folders = FOLDERS  # before, the same paths are the machine's
        self.signal(signal.SIGSTOP)

    async def run(self, code: str, seconds: float) -> Reply:
        name = secrets.token_hex(8)
        request = json.dumps({"id": name, "code": code}).encode() + b"\n"
        self.signal(signal.SIGCONT)
        message = await self.watch(lambda: self._receive(request), seconds, "the code ran")
        self.signal(signal.SIGSTOP)
        return self.parse(message, name)

    def _receive(self, request: bytes = b"") -> bytes:
        """Send a request, if there is one, and return the next message."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(request)
        self.process.stdin.flush()
        line = self.process.stdout.readline(MAX_MESSAGE_BYTES)
        if not line:
            raise EOFError
        return line


def _find_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _start(files: Files, settings: SandboxSettings) -> "subprocess.Popen[bytes]":
    if sys.platform != "linux" or platform.machine() not in seccomp.AUDIT_ARCHS:
        known = " and ".join(seccomp.AUDIT_ARCHS)
        raise NotAvailableError(f"bubblewrap is used on Linux on {known}, not on {sys.platform} {platform.machine()}.")
    if not (program := shutil.which("bwrap")):
        raise NotAvailableError("bubblewrap is not installed: install bubblewrap (apt-get install bubblewrap).")
    limits = {  # hard ones, which cannot be raised again without privileges
        **{"RLIMIT_CORE": 0, "RLIMIT_CPU": MAX_CPU_SECONDS, "RLIMIT_FSIZE": SCRATCH_BYTES},
        **{"RLIMIT_NOFILE": OPEN_FILES, "RLIMIT_AS": settings.memory_mb << 20},
    }
    packages = [f"/packages/{number}" for number in range(len(_find_site_packages()))]
    # No user packages, no .pth files, no bytecode written, no search in its folder.
    python = (find_installation()[str(Path(sys.executable).resolve())], "-s", "-S", "-B", "-P", "/sandbox/worker.py")
    end, start = os.pipe()  # its buffer is large enough for the filter
    with os.fdopen(end, "rb"), os.fdopen(start, "wb") as file:
        file.write(seccomp.build_program(platform.machine()))
        file.close()
        return subprocess.Popen(
            [*_build_command(program, files, end), *python, json.dumps({"packages": packages, "limits": limits})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # bubblewrap's own errors; worker.py closes it
            env={},  # --clearenv alone would leave it readable in bwrap's own /proc/…/environ
            pass_fds=[end],
            start_new_session=True,  # Ctrl-C is for the harness
        )


def _build_command(bwrap: str, files: Files, filter_end: int) -> list[str]:
    """Return the command up to the program that runs inside. Later mounts cover earlier ones."""
    return [
        *(bwrap, "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"),
        *("--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"),
        *("--seccomp", str(filter_end), "--clearenv"),
        *(word for name, value in ENVIRONMENT.items() for word in ("--setenv", name, value)),
        *(word for folder in FOLDERS for word in ("--size", str(SCRATCH_BYTES), "--tmpfs", folder)),
        *_bind_system(),
        *("--ro-bind", str(Path(__file__).with_name("worker.py")), "/sandbox/worker.py"),
        *_bind_files(files),
        *("--remount-ro", "/", "--chdir", "/scratch", "--"),  # the root is a folder in memory without a limit
    ]


def _bind_files(files: Files) -> Iterator[str]:
    """Bind each file in /data, with a link of its bare name in the working folder."""
    for name, path in files.items():
        if path.is_file() and name == Path(name).name:
            yield from ("--ro-bind", str(path), f"/data/{name}", "--symlink", f"/data/{name}", f"/scratch/{name}")


def _bind_system() -> Iterator[str]:
    for path in (*LIBRARIES, *DATA):
        yield from ("--ro-bind-try", path, path)
    for link in map(Path, LINKS):
        if link.is_symlink():
            yield from ("--symlink", str(link.readlink()), str(link))
        elif link.is_dir():  # on older systems
            yield from ("--ro-bind", str(link), str(link))
    for path in DEVICES:
        yield from ("--dev-bind", path, path)
    for source, target in find_installation().items():
        yield from ("--ro-bind", source, target)
    for number, source in enumerate(_find_site_packages()):
        yield from ("--ro-bind", source, f"/packages/{number}")


@functools.cache
def find_installation() -> dict[str, str]:
    """Return the paths of Python and its standard library, here and in the jail; no other files of their folders."""
    executable, base = Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
    if not executable.is_relative_to(base):
        raise NotAvailableError("this Python's program is not in its own installation; use another Python.")
    if base in (Path("/usr"), Path("/usr/local")):  # whose libraries the jail has already
        return {str(executable): str(executable)}
    found = {str(executable): f"/python/{executable.relative_to(base)}"}
    return found | {str(base / name): f"/python/{name}" for name in ("lib", "lib64") if (base / name).is_dir()}


@functools.cache
def _find_site_packages() -> tuple[str, ...]:
    """Return the folders of the harness's packages: pandas, openpyxl, numpy."""
    found = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return tuple(dict.fromkeys(path for path in found if Path(path).is_dir()))
