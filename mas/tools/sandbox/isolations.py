"""Isolations of code: bubblewrap's namespaces on Linux, else DSPy's interpreter in Deno.

In bubblewrap (https://github.com/containers/bubblewrap) the code sees the shared libraries, Python and its packages,
and the question's files, all read-only, and two small writable folders in memory. It has no network, no other process,
no /proc, no program to start but Python, and no environment. What each part protects from, and what tests have shown:
docs/explanation/sandbox.md.

In Deno, which has no permissions, Python is compiled to WebAssembly (Pyodide). It is the second choice: slower to
start, only the standard library, and no namespaces around it. DSPy waits without a limit and passes its own environment
on, so a shell sets a limit, and clears the environment, before it becomes Deno.
"""

import asyncio
import ctypes
import errno
import functools
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from dspy import PythonInterpreter

from mas.tools.sandbox import worker
from mas.tools.sandbox.session import (
    MAX_CPU_SECONDS,
    MAX_MESSAGE_BYTES,
    Files,
    Isolation,
    NotAvailableError,
    Session,
    SessionLostError,
)
from mas.tools.settings import BUBBLEWRAP, DENO, SandboxSettings

START_SECONDS = 20.0  # on a busy machine; a tenth of a second elsewhere
OPEN_FILES = 64
SCRATCH_BYTES = 64 << 20  # of the working folder, and again of /tmp; also the largest file
LIBRARIES = (
    *("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib", "/usr/local/lib64"),
    *("/lib", "/lib32", "/lib64", "/libx32"),  # today links to those
)
DATA = ("/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/alternatives")  # and Debian's BLAS for numpy
FOLDERS = ("/tmp", "/scratch")  # writable, in memory
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
ENVIRONMENT = {
    **{"PATH": "/usr/bin", "HOME": "/scratch", "TMPDIR": "/tmp", "USER": "sandbox", "LANG": "C.UTF-8", "TZ": "UTC"},
    **{"LD_LIBRARY_PATH": "/python/lib:/python/lib64"},  # else libpython is the system's
    **{"PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "2"},  # sets in the same order; less address space
    **{"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
}

CLONE_THREAD = 0x00010000
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… flag of clone(2)
PRCTL_ALLOWED = (15, 16, 23, 39)  # threads' names, reading privileges; not to outlive the parent (1)
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

INSTALL = """pip install deno, and once, online: python -c 'import dspy; dspy.PythonInterpreter()("1")'"""
DENO_START_SECONDS = 60.0
MAX_LINE_CHARS = 2 * MAX_MESSAGE_BYTES  # of Deno's output; a reply is a text in a text
OWN_MEMORY_MB = 512  # of Deno and Pyodide, in addition to the code's memory
_DENO_START = ("/bin/sh", "-c", f'ulimit -t {MAX_CPU_SECONDS}; cd /; exec /usr/bin/env -i "$@"', "sh")
_NOTEBOOK = """
import json, os, types
worker = types.ModuleType("worker")
exec({source!r}, vars(worker))
notebook = worker.Notebook()
os.makedirs("/sandbox", exist_ok=True)
os.chdir("/sandbox")
def run(code):
    return json.dumps(notebook.run(code))
None
"""


async def open_jail(files: Files, settings: SandboxSettings) -> Session:
    """Start worker.py in the jail, and wait for its first message."""
    process = _start(files, settings)
    session = Session(process, functools.partial(_exchange, process), settings.memory_mb)
    try:
        session.code_pid = await session.watch(lambda: _await_ready(process), START_SECONDS, "the start took")
    except SessionLostError as error:  # such as a container without user namespaces
        raise NotAvailableError(
            f"bubblewrap 0.8 or newer cannot isolate here ({error}); allow user namespaces on this machine or "
            "container."
        ) from error
    session.folders = FOLDERS  # before, the same paths are the machine's
    session.signal(signal.SIGSTOP)
    return session


def _exchange(process: "subprocess.Popen[bytes]", code: str | None = None) -> bytes:
    """Send a cell, if there is one, and return the next message."""
    assert process.stdin and process.stdout
    process.stdin.write(b"" if code is None else json.dumps(code).encode() + b"\n")
    process.stdin.flush()
    if line := process.stdout.readline(MAX_MESSAGE_BYTES):
        return line
    raise EOFError


def _await_ready(process: "subprocess.Popen[bytes]") -> int:
    """Return the process that runs the code, which bubblewrap has started."""
    said = _exchange(process)
    if b'"ready"' not in said:
        raise SessionLostError(said.decode("utf-8", "replace").strip()[:200])
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def _start(files: Files, settings: SandboxSettings) -> "subprocess.Popen[bytes]":
    if not (program := shutil.which("bwrap")):
        raise NotAvailableError("bubblewrap is not installed: install bubblewrap (apt-get install bubblewrap).")
    limits = {  # hard ones, which cannot be raised again without privileges
        **{"RLIMIT_CORE": 0, "RLIMIT_CPU": MAX_CPU_SECONDS, "RLIMIT_FSIZE": SCRATCH_BYTES},
        **{"RLIMIT_NOFILE": OPEN_FILES, "RLIMIT_AS": settings.memory_mb << 20},
    }
    packages = _find_site_packages()
    # No user packages, no .pth files, no bytecode written, no search in its folder.
    python = (find_installation()[str(Path(sys.executable).resolve())], "-s", "-S", "-B", "-P", "/sandbox/worker.py")
    argument = json.dumps({"packages": list(packages.values()), "limits": limits})
    end, start = os.pipe()  # its buffer is large enough for the filter
    with os.fdopen(end, "rb"):
        with os.fdopen(start, "wb"):
            _write_filter(start)
        return subprocess.Popen(
            [*_build_command(program, files, end), *python, argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # bubblewrap's own errors; worker.py closes it
            env={},  # --clearenv alone would leave it readable in bwrap's own /proc/…/environ
            pass_fds=[end],
            start_new_session=True,  # Ctrl-C is for the harness
        )


def _build_command(bwrap: str, files: Files, filter_end: int) -> Iterator[str]:
    """Yield the command up to the program that runs inside. Later mounts cover earlier ones."""
    yield from (bwrap, "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox")
    yield from ("--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL")
    yield from ("--seccomp", str(filter_end), "--clearenv")
    for name, value in ENVIRONMENT.items():
        yield from ("--setenv", name, value)
    for folder in FOLDERS:
        yield from ("--size", str(SCRATCH_BYTES), "--tmpfs", folder)
    for path in (*LIBRARIES, *DATA):
        yield from ("--ro-bind-try", path, path)
    for path in DEVICES:
        yield from ("--dev-bind", path, path)
    worker = str(Path(__file__).with_name("worker.py"))
    for source, target in (find_installation() | _find_site_packages() | {worker: "/sandbox/worker.py"}).items():
        yield from ("--ro-bind", source, target)
    for name, file in files.items():  # in /data, with a link of its bare name in the working folder
        if file.is_file() and name == Path(name).name:
            yield from ("--ro-bind", str(file), f"/data/{name}", "--symlink", f"/data/{name}", f"/scratch/{name}")
    yield from ("--remount-ro", "/", "--chdir", "/scratch", "--")  # the root is in memory, without a limit


@functools.cache
def find_installation() -> dict[str, str]:
    """Return the paths of Python and its standard library, here and in the jail, and no others."""
    executable, base = Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
    if not executable.is_relative_to(base):
        raise NotAvailableError("this Python's program is not in its own installation; use another Python.")
    if base in (Path("/usr"), Path("/usr/local")):  # whose libraries the jail has already
        return {str(executable): str(executable)}
    found = {str(executable): f"/python/{executable.relative_to(base)}"}
    return found | {str(base / name): f"/python/{name}" for name in ("lib", "lib64") if (base / name).is_dir()}


@functools.cache
def _find_site_packages() -> dict[str, str]:
    """Return the folders of the harness's packages (pandas, openpyxl, numpy), here and in the jail."""
    found = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages") and Path(path).is_dir()]
    return {path: f"/packages/{number}" for number, path in enumerate(dict.fromkeys(found))}


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


async def open_deno(files: Files, settings: SandboxSettings) -> Session:
    from dspy import CodeInterpreterError

    interpreter = _build_interpreter(files)
    executor = ThreadPoolExecutor(1, "sandbox-deno")  # DSPy's interpreter is bound to one thread
    try:
        await asyncio.wait_for(asyncio.wrap_future(executor.submit(interpreter.start)), DENO_START_SECONDS)
        pipe = interpreter.deno_process.stdout
        # The code can write to the pipe, too: a line without an end would fill the harness's memory.
        pipe.readline = functools.partial(pipe.readline, MAX_LINE_CHARS)  # DSPy skips a hundred broken ones
        memory_mb, notebook = settings.memory_mb + OWN_MEMORY_MB, _NOTEBOOK.format(source=inspect.getsource(worker))
        session = Session(
            interpreter.deno_process, lambda code: str(interpreter.execute(f"run({code!r})")), memory_mb, executor
        )
        await session.watch(lambda: interpreter.execute(notebook), DENO_START_SECONDS, "the start took")
        return session
    except BaseException as error:
        if interpreter.deno_process:
            Session(interpreter.deno_process, str, 0).close()
        if not isinstance(error, OSError | CodeInterpreterError | SessionLostError | TimeoutError):
            raise  # such as the end of the question
        lines = [line.strip() for line in str(error).splitlines() if "rror" in line] or [type(error).__name__]
        raise NotAvailableError(f"Deno cannot run Pyodide here ({lines[0][:200]}): {INSTALL}.") from error


def _build_interpreter(files: Files) -> "PythonInterpreter":
    """Return an interpreter that may read the files until its code runs, and nothing else."""
    from dspy import PythonInterpreter

    paths = [str(path.resolve()) for name, path in files.items() if path.is_file() and name == path.name]
    deno, run, *words = PythonInterpreter(enable_read_paths=paths).deno_command
    folders = [f"{name}={os.environ[name]}" for name in ("HOME", "DENO_DIR", "XDG_CACHE_HOME") if name in os.environ]
    environment = [*folders, "DENO_NO_PACKAGE_JSON=1", "NO_COLOR=1"]
    command = [*_DENO_START, *environment, deno, run, "--cached-only", "--no-prompt", *words]
    return PythonInterpreter(command, enable_read_paths=paths)


JAIL = Isolation(BUBBLEWRAP, "bubblewrap runs Python in a jail", open_jail)
WASM = Isolation(DENO, "Deno runs Python in WebAssembly (no pandas or numpy)", open_deno)
