"""Session in a child process: messages over its pipes, limits of time, memory, threads and files, and its end.

session = await ProcessSession.open(Launch(command, env, max_message_bytes=100_000, max_resident_bytes=1 << 30))
reply = await session.run("6 * 7", seconds=10)       # Reply(value="42")
"""

import asyncio
import contextlib
import functools
import json
import os
import secrets
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from mas.tools.sandbox.session import DISTURBED, NotAvailableError, Reply, SessionLostError, SessionTimeoutError


@dataclass(frozen=True)
class Usage:
    """Memory, threads and files of a process, read from /proc; zero on systems without it."""

    resident_bytes: int = 0
    threads: int = 0
    files: int = 0


def read_usage(pid: int, folders: Sequence[str] = ()) -> Usage:
    """Return what a process uses; zero after its end. Its `folders` are file systems in memory, and links are files."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (OSError, ValueError):
        return Usage()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    files = 0
    for folder in folders:
        with contextlib.suppress(OSError):  # it has just ended
            system = os.statvfs(f"/proc/{pid}/root{folder}")
            files += system.f_files - system.f_ffree
    return Usage(int(found.get("VmRSS", "0").split()[0]) * 1024, int(found.get("Threads", "0")), files)


START_SECONDS = 20.0  # on a busy machine; half a second of it elsewhere
DENO_START_SECONDS = 60.0
TICK_SECONDS = 0.1  # between two checks of memory, threads and files
MAX_CALLS = 256  # at a time
MAX_THREADS = 256  # numpy and its like start one for each core
MAX_FILES = 10_000  # in memory: each takes a kilobyte of the kernel's
MAX_STDERR_CHARS = 400
END_SECONDS = 5.0
EXIT_SECONDS = 1.0  # between the end of its pipes and its own
OUT_OF_MEMORY = 70  # exit code of worker.py

Result = TypeVar("Result")
_Message = dict[str, object]  # JSON


@dataclass
class Launch:
    """Command, environment and limits of a session's process."""

    command: Sequence[str]
    env: dict[str, str]
    max_message_bytes: int
    max_resident_bytes: int
    cwd: str | None = None
    pass_fds: tuple[int, ...] = ()  # closed here once it has started
    inner_pid: Callable[[], int | None] = lambda: None  # of the code's own process, if another starts it
    on_end: list[Callable[[], None]] = field(default_factory=list)  # after its end
    folders: tuple[str, ...] = ()  # of the code's own, in memory: their files are counted
    pauses: bool = False  # between calls: its command ends with the harness also while it is stopped
    start_seconds: float = START_SECONDS
    cpu_seconds: int | None = None  # for a program without its own limit: it must end if the harness was killed


DIES_WITH_PARENT = sys.platform == "linux"  # a process behind `die_with_parent`


def die_with_parent() -> list[str]:
    """Return the beginning of a command whose process the kernel kills when this one ends; [] where it cannot."""
    program = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-I", "-S", "-c", program] if DIES_WITH_PARENT else []


def find_failure(command: Sequence[str], expected: str, seconds: float, **options: Any) -> str:
    """Run a program that prints `expected`; return why it does not in a few words, or "" if it does.

    Args:
        options: of `subprocess.run`.
    """
    try:
        ended: subprocess.CompletedProcess[str] = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, **options
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if ended.returncode == 0 and expected in ended.stdout:
        return ""
    lines = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
    return next((line for line in lines if line.startswith(("bwrap:", "error:")) or "FATAL" in line), lines[-1])[:200]


class ProcessSession:
    """Process with the variables of a question, which runs one cell after another."""

    def __init__(self, launch: Launch) -> None:
        """Start the process.

        Raises:
            NotAvailableError: the program could not be started.
        """
        self._launch = launch
        self._closed = False
        self._inner: int | None = None
        self._folders: tuple[str, ...] = ()  # until the process has its own: before, the same paths are the machine's
        self._last_words = "it said nothing"
        self._pipes_in_use = threading.Lock()
        requests_end, self._requests = Pipe(duplex=False)
        self._replies, replies_end = Pipe(duplex=False)
        try:
            self._process = subprocess.Popen(
                launch.command,
                stdin=requests_end.fileno(),
                stdout=replies_end.fileno(),
                stderr=subprocess.PIPE,
                env=launch.env,
                cwd=launch.cwd,
                pass_fds=launch.pass_fds,
                start_new_session=True,  # Ctrl-C is for the harness; and all of it can be killed at once
            )
        except OSError as error:
            self._tidy()
            raise NotAvailableError(f"{launch.command[0]} could not be started: {error.strerror}.") from error
        finally:
            for end in (requests_end, replies_end):
                end.close()
            for number in launch.pass_fds:
                os.close(number)
        _limit_cpu(self._process.pid, launch.cpu_seconds)
        assert self._process.stderr
        for pipe in (self._requests, self._replies, self._process.stderr):
            os.set_blocking(pipe.fileno(), False)

    @classmethod
    async def open(cls, launch: Launch) -> "ProcessSession":
        """Start a session and wait until it is ready.

        Raises:
            NotAvailableError: it could not be started; the message has the end of its standard error.
        """
        session = cls(launch)
        try:
            await session._do(lambda: session._receive(time.monotonic() + launch.start_seconds, "the start took"))
        except SessionLostError as error:
            raise NotAvailableError(f"{error} ({session._last_words})") from error
        session._folders = launch.folders
        return session

    async def run(self, code: str, seconds: float) -> Reply:
        """Run a cell.

        Raises:
            SessionLostError: time, memory or the code itself has ended the session, which is then closed.
        """
        return await self._do(lambda: self._exchange(code, seconds))

    async def _do(self, work: Callable[[], Result]) -> Result:
        """Do `work` in a thread, and end the process if it does not finish: the process is then busy or broken.

        The process runs only meanwhile: between two calls nobody watches its limits.
        """
        try:
            self._signal(signal.SIGCONT)
            result = await asyncio.get_running_loop().run_in_executor(_threads(), work)
            self._signal(signal.SIGSTOP)
            return result
        except BaseException:
            self.close()
            raise

    def _exchange(self, code: str, seconds: float) -> Reply:
        name, until = secrets.token_hex(8), time.monotonic() + seconds
        self._check(until, "the code ran", seconds)  # of what it did before it was stopped
        message = self._receive(until, "the code ran", seconds, {"id": name, "code": code})
        if message.get("id") != name:
            raise SessionLostError(DISTURBED)
        return Reply.parse(message)

    def _receive(self, until: float, what: str, seconds: float = 0, request: _Message | None = None) -> _Message:
        """Return the next message, after sending a request; time, memory, threads and files are checked meanwhile."""
        check = functools.partial(self._check, until, what, seconds)
        try:
            with self._pipes_in_use:
                if request is not None:
                    if self._replies.poll() and os.read(self._replies.fileno(), 1):  # else it has ended
                        raise SessionLostError(DISTURBED)
                    body = json.dumps(request).encode()
                    rest = memoryview(struct.pack(">I", len(body)) + body)
                    while rest:
                        rest = rest[_move(os.write, self._requests, rest, check) :]
                (length,) = struct.unpack(">I", _read(self._replies, 4, check))
                if length > self._launch.max_message_bytes:
                    raise SessionLostError(DISTURBED)
                return dict(json.loads(_read(self._replies, length, check)))
        except (EOFError, BrokenPipeError) as error:  # the process ended, or the code closed the pipe
            raise self._explain_end() from error
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise SessionLostError("the question is over" if self._closed else DISTURBED) from error

    def _signal(self, number: signal.Signals) -> None:
        """Stop or continue the code's process."""
        if self._launch.pauses and self._process.poll() is None:
            inner = self._launch.inner_pid()
            _kill(os.kill, inner, number) if inner else _kill(os.killpg, self._process.pid, number)

    def _check(self, until: float, what: str, seconds: float) -> None:
        if self._closed:
            raise SessionLostError("the question is over")
        if time.monotonic() >= until:
            raise SessionTimeoutError(f"{what} longer than {seconds or self._launch.start_seconds:g} s")
        used = read_usage(self._launch.inner_pid() or self._process.pid, self._folders)
        if used.resident_bytes > self._launch.max_resident_bytes:
            raise SessionLostError(f"the code used more than {self._launch.max_resident_bytes >> 20} MB of memory")
        if used.threads > MAX_THREADS:
            raise SessionLostError(f"the code started more than {MAX_THREADS} threads")
        if used.files > MAX_FILES:
            raise SessionLostError(f"the code made more than {MAX_FILES} files")

    def _explain_end(self) -> SessionLostError:
        if self._closed:
            return SessionLostError("the question is over")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_SECONDS)
        if self._process.returncode is None:
            return SessionLostError(DISTURBED)
        if self._process.returncode == OUT_OF_MEMORY:
            return SessionLostError("the code used up its memory")
        return SessionLostError(f"the code has ended the Python process ({_describe_exit(self._process.returncode)})")

    def close(self) -> None:
        """End the process, from any thread, at once: the kernel may need a while to free a gigabyte."""
        if self._closed:
            return
        self._closed = True
        if self._process.stderr:
            said = (self._process.stderr.read() or b"").decode("utf-8", "replace").strip()
            self._last_words = said[-MAX_STDERR_CHARS:] or self._last_words
        self._kill()
        threading.Thread(target=self._await_end, name="sandbox-end").start()

    def _kill(self) -> None:
        self._inner = self._launch.inner_pid() if self._process.poll() is None else None
        _kill(os.kill, self._inner) if self._inner else _kill(os.killpg, self._process.pid)

    def _await_end(self) -> None:
        """Wait for the end: the parent of the code's process must outlive it, or that one stays a zombie."""
        if self._inner:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
        if self._process.poll() is None:
            _kill(os.killpg, self._process.pid)
            self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()
        self._tidy()

    def _tidy(self) -> None:
        with self._pipes_in_use:
            self._requests.close()
            self._replies.close()
        while self._launch.on_end:
            self._launch.on_end.pop()()


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Return the threads that wait for the processes, as many as questions may run code at a time."""
    return ThreadPoolExecutor(MAX_CALLS, "sandbox")


def _read(pipe: Connection, count: int, check: Callable[[], None]) -> bytes:
    found = b""
    while len(found) < count:
        piece = _move(os.read, pipe, count - len(found), check)
        if not piece:
            raise EOFError
        found += piece
    return found


def _move(how: Callable[[int, Any], Result], pipe: Connection, what: object, check: Callable[[], None]) -> Result:
    """Read or write what the pipe takes at once; while it takes nothing, `check` every TICK_SECONDS."""
    while True:
        try:
            return how(pipe.fileno(), what)
        except BlockingIOError:
            ready = select.poll()
            ready.register(pipe)
            ready.poll(TICK_SECONDS * 1_000)
            check()


def _limit_cpu(pid: int, seconds: int | None) -> None:
    try:
        from resource import RLIMIT_CPU, prlimit  # Linux alone
    except ImportError:
        return
    if seconds is not None:
        with contextlib.suppress(OSError):  # it has already ended
            prlimit(pid, RLIMIT_CPU, (seconds, seconds))


def _kill(how: Callable[[int, int], None], number: int, sent: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(OSError):
        how(number, sent)


def _describe_exit(code: int | None) -> str:
    """Return an exit code in words, or its signal, which a program in between may have reported as 128 and more."""
    number = -code if code is not None and code < 0 else (code or 0) - 128
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"exit code {code}"
