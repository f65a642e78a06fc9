"""Isolation in namespaces of their own, by bubblewrap (https://github.com/containers/bubblewrap).

The code sees the shared libraries, Python and its packages, and the question's files, all read-only, and two small
writable folders in memory. It has no network, no other process, no /proc, no program to start but Python, and no
environment. What each part protects from, and what tests have shown: docs/explanation/sandbox.md.
"""

import ctypes
import errno
import functools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

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
PRCTL_ALLOWED = (15, 16, 23, 39)  # names of threads, and to read privileges; not to outlive the parent (1)
UNKNOWN = range(450, 512)  # newer calls are reported as absent, so that the C library uses older ones

_ALLOW, _KILL = 0x7FFF0000, 0x80000000  # actions, as <seccomp.h> has them
_DENY, _ABSENT = (0x00050000 | number for number in (errno.EPERM, errno.ENOSYS))
_FOR_OTHER_NUMBERINGS = 2  # SCMP_FLTATR_ACT_BADARCH
_EQUAL_MASKED = 7  # SCMP_CMP_MASKED_EQ
ALLOWED = (  # system calls; `clone`, `clone3` and `prctl` have rules of their own
    # reading and writing
    *("read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2", "lseek"),
    *("close", "close_range", "dup", "dup2", "dup3", "pipe", "pipe2", "fcntl", "ioctl", "flock", "sendfile"),
    *("copy_file_range", "fadvise64"),
    # files and folders
    *("open", "openat", "openat2", "creat", "access", "faccessat", "faccessat2", "stat", "lstat", "fstat"),
    *("newfstatat", "statx", "statfs", "fstatfs", "readlink", "readlinkat", "getdents", "getdents64", "getcwd"),
    *("chdir", "fchdir", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2"),
    *("link", "linkat", "symlink", "symlinkat", "truncate", "ftruncate", "fallocate", "fsync", "fdatasync", "chmod"),
    *("fchmod", "fchmodat", "utime", "utimes", "utimensat", "futimesat", "umask", "getxattr", "lgetxattr"),
    *("fgetxattr", "listxattr", "llistxattr", "flistxattr"),
    # memory
    *("mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "msync", "membarrier"),
    # threads
    *("set_robust_list", "get_robust_list", "set_tid_address", "futex", "futex_waitv", "rseq", "gettid"),
    *("sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_get_priority_max"),
    *("sched_get_priority_min", "getcpu", "tgkill", "tkill", "arch_prctl"),
    # the process itself; bwrap starts Python by `execve` under this filter
    *("execve", "exit", "exit_group", "getpid", "getppid", "getpgid", "getpgrp", "getsid", "getuid", "geteuid"),
    *("getgid", "getegid", "getresuid", "getresgid", "getgroups", "uname", "sysinfo", "getrusage", "getrlimit"),
    *("setrlimit", "prlimit64", "getpriority", "times", "wait4", "waitid", "capget", "getrandom"),
    # signals: there is no other process to receive them
    *("kill", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_sigpending"),
    *("sigaltstack", "pause", "alarm", "getitimer", "setitimer", "restart_syscall"),
    # time and waiting
    *("clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "poll", "ppoll"),
    *("select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait"),
    *("epoll_pwait2", "eventfd", "eventfd2"),
    # a pair of connected sockets, for asyncio; there is no `socket`, `connect` or `sendmsg`
    *("socketpair", "sendto", "recvfrom", "shutdown", "getsockopt", "setsockopt", "getsockname", "getpeername"),
)


class JailSession(Session):
    """Session with worker.py in the jail; it is stopped between two calls, when nobody watches its limits."""

    name = BUBBLEWRAP
    description = "bubblewrap runs Python in a jail"
    process: "subprocess.Popen[bytes]"

    @classmethod
    async def open(cls, files: Files, settings: SandboxSettings) -> "JailSession":
        try:
            session = cls(_start(files, settings), settings.memory_mb)
        except OSError as error:  # no process or pipe is free
            raise NotAvailableError(f"bubblewrap does not start ({error.strerror}).") from error
        try:
            await session._wait_until_ready()
        except (SessionLostError, OSError, IndexError) as error:  # such as a container without user namespaces
            session.close()
            raise NotAvailableError(
                f"bubblewrap 0.8 or newer cannot isolate here ({error}); allow user namespaces on this machine or "
                "container."
            ) from error
        return session

    async def _wait_until_ready(self) -> None:
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
        _write_filter(start)
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


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_: ClassVar = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def _write_filter(pipe: int) -> None:
    """Write the filter of system calls, which the kernel runs, in the form that bubblewrap reads.

    Namespaces limit what the code can see; the filter prevents processes (RLIMIT_NPROC has no effect when the harness
    runs as root), sockets, further namespaces, a look at mounts, and memory that RLIMIT_AS does not count. Threads stay
    possible: `clone` is allowed with CLONE_THREAD, and `clone3`, whose flags a filter cannot see, "does not exist", on
    which the C library falls back to `clone`.
    """
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as error:
        raise NotAvailableError("libseccomp is not installed: install it (apt-get install libseccomp2).") from error
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(_DENY))

    def add(action: int, call: str | int, mask: int = 0, value: int = 0) -> None:
        """Add a rule for a call whose first argument has this value under the mask."""
        number = library.seccomp_syscall_resolve_name(call.encode()) if isinstance(call, str) else call
        compared = _Comparison(0, _EQUAL_MASKED, mask, value)
        if number >= 0:  # the processor has this call
            library.seccomp_rule_add_array(rules, action, number, 1 if mask else 0, ctypes.byref(compared))

    library.seccomp_attr_set(rules, _FOR_OTHER_NUMBERINGS, _KILL)
    for name in ALLOWED:
        add(_ALLOW, name)
    for option in PRCTL_ALLOWED:
        add(_ALLOW, "prctl", 0xFFFFFFFF, option)
    add(_ALLOW, "clone", NEW_NAMESPACES | CLONE_THREAD, CLONE_THREAD)
    for absent in ("clone3", *UNKNOWN):
        add(_ABSENT, absent)
    library.seccomp_export_bpf(rules, pipe)
    library.seccomp_release(rules)
