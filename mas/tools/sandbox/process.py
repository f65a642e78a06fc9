"""Session in a child process: messages over its pipes, limits of time, memory, threads and files, and its end.

session = ProcessSession(Launch(command, env, max_message_bytes=100_000, max_resident_bytes=1 << 30))
await session.wait_until_ready()
reply = await session.run("6 * 7", seconds=10)       # Reply(value="42")
"""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mas.tools.sandbox.session import (
    DISTURBED,
    NotAvailableError,
    Reply,
    SessionLostError,
    SessionTimeoutError,
)


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


class _PipeClosedError(Exception):
    """The process ended, or the code closed the pipe."""


class ProcessSession:
    """Process that runs the code; see `mas.tools.sandbox.session.Session`."""

    def __init__(self, launch: Launch) -> None:
        """Start the process.

        Raises:
            NotAvailableError: the program could not be started.
        """
        self._launch, self._buffer = launch, bytearray()
        self._closed = self._busy = False
        self._inner: int | None = None
        self._folders: tuple[str, ...] = ()  # until the process has its own: before, the same paths are the machine's
        self._last_words = "it said nothing"
        try:
            self._process = subprocess.Popen(
                launch.command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
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
            for number in launch.pass_fds:
                os.close(number)
        _limit_cpu(self._process.pid, launch.cpu_seconds)
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._requests, self._replies, self._complaints = (pipe.fileno() for pipe in pipes if pipe is not None)
        for number in (self._requests, self._replies, self._complaints):
            os.set_blocking(number, False)

    async def wait_until_ready(self) -> None:
        """Wait for the first message of the process.

        Raises:
            NotAvailableError: there was none; the message has the end of its standard error.
        """
        try:
            await self._do(self._message(time.monotonic() + self._launch.start_seconds, "the start took"))
        except SessionLostError as error:
            raise NotAvailableError(f"{error} ({self._last_words})") from error
        self._folders = self._launch.folders

    async def run(self, code: str, seconds: float) -> Reply:
        return await self._do(self._run(code, seconds))

    async def _run(self, code: str, seconds: float) -> Reply:
        name, until, what = secrets.token_hex(8), time.monotonic() + seconds, "the code ran"
        # Of what it did before it was stopped; and before it is read: the pipe of a closed session may be another file.
        self._check(until, what, seconds)
        if self._buffer or self._read():
            raise SessionLostError(DISTURBED)
        await self._send(_encode({"id": name, "code": code}), until, what)
        message = await self._message(until, what, seconds)
        if message.get("id") != name:
            raise SessionLostError(DISTURBED)
        return Reply.parse(message)

    async def _do(self, work: Awaitable[Result]) -> Result:
        """Do `work`, and end the process if it does not finish: the process is then busy or broken.

        The process runs only meanwhile: between two calls nobody watches its limits.
        """
        self._busy = True
        try:
            self._signal(signal.SIGCONT)
            result = await work
            self._signal(signal.SIGSTOP)
            return result
        except _PipeClosedError as error:
            why = await self._explain_end()
            self.close()
            raise why from error
        except BaseException:
            self.close()
            raise
        finally:
            self._busy = False
            if self._closed:
                self._release()

    def _signal(self, number: signal.Signals) -> None:
        """Stop or continue the code's process."""
        if self._launch.pauses and self._process.poll() is None:
            inner = self._launch.inner_pid()
            _kill(os.kill, inner, number) if inner else _kill(os.killpg, self._process.pid, number)

    async def _send(self, data: bytes, until: float, what: str) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._requests, rest) :]
            except BlockingIOError:
                await self._wait(self._requests, until, what, 0, write=True)
            except OSError as error:
                raise _PipeClosedError from error

    async def _message(self, until: float, what: str, seconds: float = 0) -> _Message:
        while (found := self._take_message()) is None:
            if not self._read():
                await self._wait(self._replies, until, what, seconds)
        return found

    def _take_message(self) -> _Message | None:
        """Remove the first message from the buffer and return it, once it is complete."""
        if len(self._buffer) < 4:
            return None
        (length,) = struct.unpack(">I", self._buffer[:4])
        if length > self._launch.max_message_bytes:
            raise SessionLostError(DISTURBED)
        if len(self._buffer) < 4 + length:
            return None
        body = bytes(self._buffer[4 : 4 + length])
        del self._buffer[: 4 + length]
        try:
            return dict(json.loads(body))
        except (ValueError, TypeError, RecursionError) as error:
            raise SessionLostError(DISTURBED) from error

    def _read(self) -> bool:
        """Read available bytes into the buffer; return False if there are none."""
        try:
            piece = os.read(self._replies, 1 << 16)
        except BlockingIOError:
            return False
        except OSError as error:
            raise _PipeClosedError from error
        if not piece:
            raise _PipeClosedError
        self._buffer += piece
        return True

    async def _wait(self, pipe: int, until: float, what: str, seconds: float, write: bool = False) -> None:
        """Wait until the pipe is ready or a moment has passed, then check time, memory and threads."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
        add(pipe, ready.set)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ready.wait(), max(0.0, min(TICK_SECONDS, until - time.monotonic())))
        finally:
            remove(pipe)
        self._check(until, what, seconds)

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

    async def _explain_end(self) -> SessionLostError:
        if self._closed:
            return SessionLostError("the question is over")
        until = time.monotonic() + EXIT_SECONDS
        while self._process.poll() is None and time.monotonic() < until:  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(TICK_SECONDS / 10)
        if self._process.returncode is None:
            return SessionLostError(DISTURBED)
        if self._process.returncode == OUT_OF_MEMORY:
            return SessionLostError("the code used up its memory")
        return SessionLostError(f"the code has ended the Python process ({_describe_exit(self._process.returncode)})")

    def close(self) -> None:
        """Kill the process; a thread waits for its end, since the kernel may need a while to free a gigabyte."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            said = os.read(self._complaints, 4 * MAX_STDERR_CHARS).decode("utf-8", "replace").strip()
            self._last_words = said[-MAX_STDERR_CHARS:] or self._last_words
        self._inner = self._launch.inner_pid() if self._process.poll() is None else None
        _kill(os.kill, self._inner) if self._inner else _kill(os.killpg, self._process.pid)
        if not self._busy:
            self._release()
        threading.Thread(target=self._await_end, name="sandbox-end").start()

    def _await_end(self) -> None:
        """Wait for the end: the parent of the code's process must outlive it, or that one stays a zombie."""
        if self._inner:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
        if self._process.poll() is None:
            _kill(os.killpg, self._process.pid)
            self._process.wait()
        self._tidy()

    def _release(self) -> None:
        """Close the pipes, once no event loop watches them: their numbers may be reused at once."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _tidy(self) -> None:
        while self._launch.on_end:
            self._launch.on_end.pop()()


def _encode(message: _Message) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


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
