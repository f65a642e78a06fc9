"""Session in a child process: cell by cell, within limits of time, memory, threads and files."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mas.runtime.text import replace_surrogates
from mas.tools.sandbox.worker import MAX_OUTPUT_CHARS, OUT_OF_MEMORY
from mas.tools.settings import SandboxSettings

MAX_MESSAGE_BYTES = 20 * MAX_OUTPUT_CHARS + 100_000
MAX_CPU_SECONDS = 300  # of a session: for threads of the code, and if the harness is killed
MAX_THREADS = 256  # numpy and its like start one for each core
MAX_FILES = 10_000  # in memory: each takes a kilobyte of the kernel's
TICK_SECONDS = 0.1  # between two checks of memory, threads and files
END_SECONDS = 5.0
EXIT_SECONDS = 1.0  # between the end of its pipes and its own
DISTURBED = "the code has disturbed the sandbox's own messages"
OVER = "the question is over"

Files = Mapping[str, Path]  # of the question, by bare name
Exchange = Callable[[str], str | bytes]  # from code to the message about it, by the process; it blocks
_Result = TypeVar("_Result")
_threads = ThreadPoolExecutor(256, "sandbox")  # the loop's own may all wait for the isolation


class SessionLostError(Exception):
    """The session ended and its variables are lost; the message says why."""


class SessionTimeoutError(SessionLostError):
    """The code was stopped because its time was over."""


class NotAvailableError(Exception):
    """The isolation is not available on this machine; one sentence with the cause and the remedy."""


@dataclass(frozen=True)
class Reply:
    """Result of one cell. It comes from the code's own process: all of it may be made up."""

    output: str = ""  # printed
    value: str = ""  # of the last expression
    error: str = ""  # a traceback
    missing_chars: int = 0  # that were cut off


class Session:
    """Process with the variables of a question."""

    def __init__(
        self, process: "subprocess.Popen[Any]", exchange: Exchange, memory_mb: int, executor: Executor = _threads
    ) -> None:
        self.process = process
        self.code_pid = process.pid  # of the process that the code runs in, if another starts it
        self.folders: tuple[str, ...] = ()  # of a jail, in memory: their files are counted
        self._exchange, self._executor = exchange, executor
        self._memory_mb = memory_mb
        self._cells = 0
        self._is_closed = False

    async def run(self, code: str, seconds: float) -> Reply:
        """Run a cell; SessionLostError: a limit or the code itself has ended the session."""
        self._cells += 1
        self.signal(signal.SIGCONT)
        message = await self.watch(lambda: self._exchange(code), seconds, "the code ran")
        if self.folders:  # between two calls nobody watches the limits of a jail
            self.signal(signal.SIGSTOP)
        with contextlib.suppress(ValueError, TypeError, AttributeError, LookupError, RecursionError):
            values = replace_surrogates(json.loads(message))
            output, value, error = (str(values[key]) for key in ("output", "value", "error"))
            if values["cell"] == self._cells:  # the code may make messages up
                return Reply(output, value, error, int(values["missing_chars"]))
        self.close()
        raise SessionLostError(DISTURBED)

    async def watch(self, work: Callable[[], _Result], seconds: float, what: str) -> _Result:
        """Return the result of `work`, done in a thread; meanwhile check the process's limits."""
        until = time.monotonic() + seconds
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            while not future.done():
                if time.monotonic() >= until:
                    raise SessionTimeoutError(f"{what} longer than {seconds:g} s")
                if excess := self._find_excess():
                    raise SessionLostError(excess)
                await asyncio.wait({future}, timeout=TICK_SECONDS)
            return future.result()
        except (SessionLostError, asyncio.CancelledError):
            self.close()
            raise
        except Exception as error:
            lost = OVER if self._is_closed else self._describe_end()
            self.close()
            raise SessionLostError(lost) from error
        finally:
            future.cancel()

    def _find_excess(self) -> str:
        """Return the limit that is exceeded in words; "" if none is, and on systems without /proc."""
        try:
            lines = Path(f"/proc/{self.code_pid}/status").read_text().splitlines()
        except (OSError, ValueError):
            return ""
        used, files = dict(line.split(":", 1) for line in lines), 0
        for folder in self.folders:
            with contextlib.suppress(OSError):  # it has just ended
                system = os.statvfs(f"/proc/{self.code_pid}/root{folder}")
                files += system.f_files - system.f_ffree
        if int(used.get("VmRSS", "0").split()[0]) >> 10 > self._memory_mb:
            return f"the code used more than {self._memory_mb} MB of memory"
        if int(used.get("Threads", "0")) > MAX_THREADS:
            return f"the code started more than {MAX_THREADS} threads"
        return f"the code made more than {MAX_FILES} files" if files > MAX_FILES else ""

    def _describe_end(self) -> str:
        """Return why the process ended, from its exit code, which may be 128 and a signal's number."""
        try:
            code = self.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return DISTURBED
        if code == OUT_OF_MEMORY:
            return "the code used up its memory"
        how = f"exit code {code}"
        with contextlib.suppress(ValueError):
            how = f"signal {signal.Signals(-code if code < 0 else code - 128).name}"
        return f"the code has ended the Python process ({how})"

    def signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                os.kill(self.code_pid, number)

    def close(self) -> None:
        """End the process, from any thread, at once: the kernel may need a while to free a gigabyte."""
        if not self._is_closed:
            self._is_closed = True
            self.signal(signal.SIGKILL)
            threading.Thread(target=self._await_end, name="sandbox-end").start()

    def _await_end(self) -> None:
        """Wait for the end: the parent of the code's process must outlive it, else a zombie stays."""
        with contextlib.suppress(OSError), self.process:  # whose end closes the pipes
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_SECONDS)
            self.process.kill()


@dataclass(frozen=True)
class Isolation:
    """Way to shut code in; `open` raises NotAvailableError where it does not work."""

    name: str  # value of tools.sandbox.kind
    description: str
    open: Callable[[Files, SandboxSettings], Coroutine[Any, Any, Session]]
