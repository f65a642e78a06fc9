"""Isolation in namespaces of their own, by bubblewrap (https://github.com/containers/bubblewrap).

The code sees the shared libraries, Python and its packages, and the question's files, all read-only, and two small
writable folders in memory. It has no network, no other process, no /proc, no program to start but Python, and no
environment. What each part protects from, and what tests have shown: docs/explanation/sandbox.md.
"""

import errno
import functools
import json
import os
import platform
import secrets
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

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

CLONE_THREAD = 0x00010000
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… flag of clone(2)
X32 = 0x40000000  # the second numbering of system calls on x86_64

_NR, _ARCH, _FIRST = 0, 4, 16  # offsets in struct seccomp_data; _FIRST: the low half of the first argument
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_DENY = 0x00050000 | errno.EPERM
_ABSENT = 0x00050000 | errno.ENOSYS

AUDIT_ARCHS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435  # on both
PRCTL = {"x86_64": 157, "aarch64": 167}
PRCTL_ALLOWED = (15, 16, 23, 39)  # names of threads, and to read privileges; not to outlive the parent (1)
NEWEST_KNOWN = 449  # later calls are reported as absent, so that the C library uses older ones

# name: (x86_64, aarch64), as in the kernel's headers; None: does not exist
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # reading and writing
    **{"read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67)},
    **{"pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70), "preadv2": (327, 286)},
    **{"pwritev2": (328, 287), "lseek": (8, 62), "close": (3, 57), "close_range": (436, 436), "dup": (32, 23)},
    **{"dup2": (33, None), "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59), "fcntl": (72, 25)},
    **{"ioctl": (16, 29), "flock": (73, 32), "sendfile": (40, 71), "copy_file_range": (326, 285)},
    **{"fadvise64": (221, 223)},
    # files and folders
    **{"open": (2, None), "openat": (257, 56), "openat2": (437, 437), "creat": (85, None), "access": (21, None)},
    **{"faccessat": (269, 48), "faccessat2": (439, 439), "stat": (4, None), "lstat": (6, None), "fstat": (5, 80)},
    **{"newfstatat": (262, 79), "statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44)},
    **{"readlink": (89, None), "readlinkat": (267, 78), "getdents": (78, None), "getdents64": (217, 61)},
    **{"getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50), "mkdir": (83, None), "mkdirat": (258, 34)},
    **{"rmdir": (84, None), "unlink": (87, None), "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38)},
    **{"renameat2": (316, 276), "link": (86, None), "linkat": (265, 37), "symlink": (88, None)},
    **{"symlinkat": (266, 36), "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47)},
    **{"fsync": (74, 82), "fdatasync": (75, 83), "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53)},
    **{"utime": (132, None), "utimes": (235, None), "utimensat": (280, 88), "futimesat": (261, None)},
    **{"umask": (95, 166), "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10)},
    **{"listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13)},
    # memory
    **{"mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226), "madvise": (28, 233)},
    **{"brk": (12, 214), "msync": (26, 227), "membarrier": (324, 283)},
    # threads; `clone`, `clone3` and `prctl` have rules of their own
    **{"set_robust_list": (273, 99), "get_robust_list": (274, 100), "set_tid_address": (218, 96), "futex": (202, 98)},
    **{"futex_waitv": (449, 449), "rseq": (334, 293), "gettid": (186, 178), "sched_yield": (24, 124)},
    **{"sched_getaffinity": (204, 123), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120)},
    **{"sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126), "getcpu": (309, 168)},
    **{"tgkill": (234, 131), "tkill": (200, 130), "arch_prctl": (158, None)},
    # the process itself; bwrap starts Python by `execve` under this filter
    **{"execve": (59, 221), "exit": (60, 93), "exit_group": (231, 94), "getpid": (39, 172), "getppid": (110, 173)},
    **{"getpgid": (121, 155), "getpgrp": (111, None), "getsid": (124, 156), "getuid": (102, 174)},
    **{"geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148)},
    **{"getresgid": (120, 150), "getgroups": (115, 158), "uname": (63, 160), "sysinfo": (99, 179)},
    **{"getrusage": (98, 165), "getrlimit": (97, 163), "setrlimit": (160, 164), "prlimit64": (302, 261)},
    **{"getpriority": (140, 141), "times": (100, 153), "wait4": (61, 260), "waitid": (247, 95), "capget": (125, 90)},
    **{"getrandom": (318, 278)},
    # signals: there is no other process to receive them
    **{"kill": (62, 129), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139)},
    **{"rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "rt_sigpending": (127, 136)},
    **{"sigaltstack": (131, 132), "pause": (34, None), "alarm": (37, None), "getitimer": (36, 102)},
    **{"setitimer": (38, 103), "restart_syscall": (219, 128)},
    # time and waiting
    **{"clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115)},
    **{"nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, None), "poll": (7, None), "ppoll": (271, 73)},
    **{"select": (23, None), "pselect6": (270, 72), "epoll_create": (213, None), "epoll_create1": (291, 20)},
    **{"epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441)},
    **{"eventfd": (284, None), "eventfd2": (290, 19)},
    # a pair of connected sockets, for asyncio; there is no `socket`, `connect` or `sendmsg`
    **{"socketpair": (53, 199), "sendto": (44, 206), "recvfrom": (45, 207), "shutdown": (48, 210)},
    **{"getsockopt": (55, 209), "setsockopt": (54, 208), "getsockname": (51, 204), "getpeername": (52, 205)},
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
    if sys.platform != "linux" or platform.machine() not in AUDIT_ARCHS:
        known = " and ".join(AUDIT_ARCHS)
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
        file.write(_build_filter(platform.machine()))
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


def _build_filter(machine: str) -> bytes:
    """Return the filter of system calls, which the kernel runs, for `platform.machine()`, which is in AUDIT_ARCHS.

    Namespaces limit what the code can see; the filter prevents processes (RLIMIT_NPROC has no effect when the harness
    runs as root), sockets, further namespaces, a look at mounts, and memory that RLIMIT_AS does not count. Threads stay
    possible: `clone` is allowed with CLONE_THREAD, and `clone3`, whose flags a filter cannot see, "does not exist", on
    which the C library falls back to `clone`. Classic BPF (seccomp(2)) by hand: libseccomp is not on every machine.
    """
    allowed = [numbers[list(AUDIT_ARCHS).index(machine)] for numbers in ALLOWED.values()]
    return b"".join(_build_instructions(machine, sorted(number for number in allowed if number is not None)))


def _build_instructions(machine: str, allowed: list[int]) -> list[bytes]:
    return [
        _encode(_LOAD, _ARCH),
        _encode(_EQUAL, AUDIT_ARCHS[machine], 1, 0),
        _encode(_RETURN, _KILL),  # 32-bit calls have other numbers
        _encode(_LOAD, _NR),
        *([_encode(_AT_LEAST, X32, 0, 1), _encode(_RETURN, _DENY)] if machine == "x86_64" else []),
        *_allow(allowed),
        _encode(_EQUAL, CLONE3, 0, 1),
        _encode(_RETURN, _ABSENT),
        _encode(_AT_LEAST, NEWEST_KNOWN + 1, 0, 1),
        _encode(_RETURN, _ABSENT),
        _encode(_EQUAL, PRCTL[machine], 0, 2 * len(PRCTL_ALLOWED) + 2),
        _encode(_LOAD, _FIRST),
        *_allow(PRCTL_ALLOWED),
        _encode(_RETURN, _DENY),
        _encode(_EQUAL, CLONE[machine], 1, 0),
        _encode(_RETURN, _DENY),
        _encode(_LOAD, _FIRST),
        _encode(_ANY_BIT, NEW_NAMESPACES, 1, 0),
        _encode(_ANY_BIT, CLONE_THREAD, 1, 0),
        _encode(_RETURN, _DENY),
        _encode(_RETURN, _ALLOW),
    ]


def _allow(numbers: Iterable[int]) -> list[bytes]:
    return [each for number in numbers for each in (_encode(_EQUAL, number, 0, 1), _encode(_RETURN, _ALLOW))]


def _encode(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return a struct sock_filter; the jumps skip that many instructions."""
    return struct.pack("=HBBI", code, if_true, if_false, operand)
