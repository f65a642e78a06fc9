"""Isolation in namespaces of their own, by bubblewrap (https://github.com/containers/bubblewrap).

The code sees the shared libraries, Python and its packages, and the question's files, all read-only, and two small
writable folders in memory. It has no network, no other process, no /proc, no program to start but Python, and no
environment. What each part protects from, and what tests have shown: docs/explanation/sandbox.md.
"""

import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from mas.runtime.security.bind_mounts import bind_links
from mas.tools.sandbox import seccomp
from mas.tools.sandbox.process import Launch, ProcessSession, find_failure
from mas.tools.sandbox.session import NotAvailableError
from mas.tools.settings import BUBBLEWRAP, SandboxSettings

MIN_VERSION = (0, 7)  # --size
DISABLES_USERNS = (0, 8)
PROBE_SECONDS = 20.0
OPEN_FILES = 64
INSTALL = "install bubblewrap (apt-get install bubblewrap)"
HERE = Path(__file__).parent
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


class Bubblewrap:
    name = BUBBLEWRAP

    @functools.cached_property
    def _program(self) -> tuple[str, tuple[int, ...]]:
        return find_program()

    def probe(self) -> str:
        bwrap, version = self._program
        filter_end = _open_filter()
        code = "import os; print(6 * 7, os.listdir('/scratch'))"
        command = [*_build_command(bwrap, version, 1, {}, ()), *_python_command(), "-c", code]
        command[1:1] = ["--seccomp", str(filter_end)]
        try:
            cause = find_failure(command, "42 []", PROBE_SECONDS, env={}, pass_fds=(filter_end,))
        finally:
            os.close(filter_end)
        if cause:
            remedy = "; allow user namespaces on this machine or container" if cause.startswith("bwrap:") else ""
            raise NotAvailableError(f"bubblewrap cannot isolate here ({cause}){remedy}.")
        return f"bubblewrap {'.'.join(map(str, version))} runs Python in a jail"

    async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> ProcessSession:
        bwrap, version = self._program
        filter_end = _open_filter()
        info, info_end = os.pipe()
        options = ["--seccomp", str(filter_end), "--info-fd", str(info_end)]
        jail = _build_command(bwrap, version, settings.scratch_mb << 20, files, options)
        inner = _InnerPid(info)
        launch = Launch(
            command=[
                *jail,
                *_python_command(),
                "/sandbox/worker.py",
                json.dumps(build_worker_settings(settings, _name_packages())),
            ],
            env={},  # --clearenv alone would leave it readable in bwrap's own /proc/…/environ
            max_message_bytes=20 * settings.max_output_chars + 100_000,
            max_resident_bytes=settings.memory_mb << 20,
            pass_fds=(filter_end, info_end),
            inner_pid=inner.read,
            folders=FOLDERS,
            pauses=True,
            on_end=[inner.close],
        )
        return await ProcessSession.open(launch)


def build_worker_settings(settings: SandboxSettings, packages: list[str]) -> dict[str, object]:
    """Return the settings for worker.py."""
    return {
        **{"max_chars": settings.max_output_chars, "packages": packages, "open_files": OPEN_FILES},
        **{"memory_bytes": settings.memory_mb << 20, "file_bytes": settings.scratch_mb << 20},
        "cpu_seconds": int(settings.seconds_per_question) + 5,  # for threads that run on between two calls
    }


class _InnerPid:
    """Id of the jail's first process, which bwrap reports once; None until then."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._pid, self._text = pipe, None, b""
        os.set_blocking(pipe, False)

    def read(self) -> int | None:
        if self._pid is None and self._pipe >= 0:
            try:
                self._text += os.read(self._pipe, 4096)
                self._pid = json.loads(self._text)["child-pid"]
            except (BlockingIOError, ValueError, KeyError):
                return None
        return self._pid

    def close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def find_program() -> tuple[str, tuple[int, ...]]:
    """Return path and version of bwrap.

    Raises:
        NotAvailableError: it is missing or too old, or the processor's system calls are not known here.
    """
    if seccomp.build_program(platform.machine()) is None or sys.platform != "linux":
        known = " and ".join(seccomp.AUDIT_ARCHS)
        raise NotAvailableError(f"bubblewrap is used on Linux on {known}, not on {sys.platform} {platform.machine()}.")
    if not (found := shutil.which("bwrap")):
        raise NotAvailableError(f"bubblewrap is not installed: {INSTALL}.")
    try:
        said = subprocess.run(
            [found, "--version"], env={}, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailableError(f"bubblewrap does not start ({type(error).__name__}).") from error
    version = tuple(int(part) for part in re.findall(r"\d+", said.stdout))
    if version < MIN_VERSION:
        raise NotAvailableError(f"bubblewrap {'.'.join(map(str, version))} is too old; expected 0.7 or newer.")
    return found, version


def _open_filter() -> int:
    """Return the read end of a pipe that holds the system call filter; the pipe's buffer is large enough."""
    end, start = os.pipe()
    with os.fdopen(start, "wb") as file:
        file.write(seccomp.build_program(platform.machine()) or b"")
    return end


def _build_command(
    bwrap: str, version: tuple[int, ...], scratch_bytes: int, files: Mapping[str, Path], more: list[str] | tuple[()]
) -> list[str]:
    """Return the command up to the program that runs inside. Later mounts cover earlier ones."""
    size = str(scratch_bytes)
    return [
        *(bwrap, "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"),
        *(["--disable-userns"] if version >= DISABLES_USERNS else []),
        *("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", *more, "--clearenv"),
        *(word for name, value in ENVIRONMENT.items() for word in ("--setenv", name, value)),
        *(word for folder in FOLDERS for word in ("--size", size, "--tmpfs", folder)),
        *_bind_system(),
        *("--ro-bind", str(HERE / "worker.py"), "/sandbox/worker.py"),
        *("--ro-bind", str(HERE / "notebook.py"), "/sandbox/notebook.py"),
        *(word for name, path in files.items() for word in _bind_file(name, path)),
        *("--remount-ro", "/", "--chdir", "/scratch", "--"),  # the root is a folder in memory without a limit
    ]


def _bind_file(name: str, path: Path) -> Iterator[str]:
    """Bind a file in /data, with a link of its bare name in the working folder."""
    if path.is_file() and name == Path(name).name:
        yield from ("--ro-bind", str(path), f"/data/{name}", "--symlink", f"/data/{name}", f"/scratch/{name}")


def _bind_system() -> Iterator[str]:
    for path in (*LIBRARIES, *DATA):
        yield from ("--ro-bind-try", path, path)
    yield from bind_links(LINKS)
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


def _python_command() -> list[str]:
    """Return the Python command: no user packages, no .pth files, no bytecode written, no search in its folder."""
    return [find_installation()[str(Path(sys.executable).resolve())], "-s", "-S", "-B", "-P"]


@functools.cache
def _find_site_packages() -> tuple[str, ...]:
    """Return the folders of the harness's packages: pandas, openpyxl, numpy."""
    found = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return tuple(dict.fromkeys(path for path in found if Path(path).is_dir()))


def _name_packages() -> list[str]:
    return [f"/packages/{number}" for number in range(len(_find_site_packages()))]
