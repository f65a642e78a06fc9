"""Pool of processes that read foreign bytes; `mas.tools.files.reader_process` is their program.

facts = call_reader("mas.tools.files.kinds:read_source", data, {"name": "report.pdf", …})
facts = await await_reader("mas.tools.web.html_page:read_html", body, {"name": "The page", …})

A task is a function of bytes and values for JSON, and returns values for JSON.
"""

import asyncio
import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from mas.runtime.sample_context import current_context
from mas.runtime.security.child_environment import build_child_environment
from mas.tools.files.reader_process import TOO_MUCH, Facts
from mas.tools.results import ToolError

WORKERS = max(2, min(4, os.cpu_count() or 2))  # at most; one is started when it is needed and serves until the run ends
MAX_SECONDS = 150.0  # of one call, most of it for the libraries' import on a busy machine
MAX_ERROR_CHARS = 5_000
MAX_REPLY_BYTES = 200 * 1024 * 1024

Arguments = Mapping[str, object]  # values for JSON, with the `name` that messages give the bytes
_Process = subprocess.Popen[bytes]
_processes: set[_Process] = set()
_idle: list[_Process] = []
_places = threading.BoundedSemaphore(WORKERS)
_starter = ThreadPoolExecutor(1, "reader")  # the kernel ends a process with the thread that has started it


class ReaderCall:
    """One call of a reader, which another thread may cancel at any time: while it waits, works or has just ended."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self._process: _Process | None = None
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """End the call and its process, if it has one now."""
        with self._lock:
            self.is_cancelled = True
            if self._process is not None:
                _kill(self._process)

    def hold(self, process: _Process) -> None:
        """Use the process for this call; it is killed if the call was cancelled meanwhile."""
        with self._lock:
            self._process = process
            if self.is_cancelled:
                _kill(process)

    def release(self, process: _Process, is_reusable: bool) -> None:
        """Give the process to the next call, or end it."""
        with self._lock:  # a cancellation comes before or after: it must not kill a process of another call
            self._process = None
            is_reusable = is_reusable and not self.is_cancelled
            if is_reusable:
                _idle.append(process)
        if not is_reusable:
            _end(process)


async def await_reader(task: str, data: bytes, arguments: Arguments) -> Facts:
    """Return what `call_reader` does; a cancellation, such as that of a deadline, ends the process.

    Raises:
        ToolError: as `call_reader`.
    """
    call = ReaderCall()
    try:
        return await asyncio.to_thread(call_reader, task, data, arguments, call)
    except asyncio.CancelledError:
        call.cancel()
        raise


def call_reader(task: str, data: bytes, arguments: Arguments, call: ReaderCall | None = None) -> Facts:
    """Return a task's answer, done in another process before the question's deadline.

    Args:
        task: `module:function`.
        arguments: values for JSON; `name` is what messages call the bytes.
        call: a handle with which another thread may cancel the call.

    Raises:
        ToolError: the bytes cannot be read, or the task took too much time or memory.
    """
    name, context, started = arguments.get("name", "The input"), current_context(), time.monotonic()
    seconds = max(0.0, min(MAX_SECONDS, context.seconds_left if context else MAX_SECONDS))
    head = json.dumps({"task": task, "size": len(data), "arguments": arguments}).encode("ascii")
    call = call or ReaderCall()
    on_close = context.on_close if context else []  # a thread is not cancelled with the question that started it
    on_close.append(call.cancel)
    try:
        if not _places.acquire(timeout=seconds):
            raise ToolError(f"{name} is not read: other files took all the time; try again later.")
        try:
            reply = (
                None if call.is_cancelled else _ask((head, b"\n", data), seconds - (time.monotonic() - started), call)
            )
        finally:
            _places.release()
    finally:
        with contextlib.suppress(ValueError):  # it was called
            on_close.remove(call.cancel)
    if reply is None:
        raise ToolError(TOO_MUCH.format(name=name))
    if "facts" not in reply:
        raise ToolError(str(reply.get("error"))[:MAX_ERROR_CHARS])
    return dict(reply["facts"])


def _ask(request: tuple[bytes, ...], seconds: float, call: ReaderCall) -> Facts | None:
    """Return the reply of a process; None if it ended, or was killed, without one."""
    try:
        process = _idle.pop()
    except IndexError:
        process = _starter.submit(_start_process).result()
    timer = threading.Timer(seconds, call.cancel)
    timer.daemon = True
    timer.start()
    call.hold(process)
    reply: Facts | None = None
    try:
        assert process.stdin and process.stdout
        process.stdin.writelines(request)
        process.stdin.flush()
        reply = dict(json.loads(process.stdout.readline(MAX_REPLY_BYTES)))
    except (OSError, ValueError, RecursionError):
        pass
    finally:
        timer.cancel()
        call.release(process, is_reusable=reply is not None and not reply["is_last"])
    return reply


def _start_process() -> _Process:
    paths = os.pathsep.join(path for path in sys.path if path)
    one_thread = dict.fromkeys(("OMP_THREAD_LIMIT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "mas.tools.files.reader_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=build_child_environment("TESSDATA_PREFIX", PYTHONPATH=paths, **one_thread),
        start_new_session=True,  # Ctrl-C is for the run, which then ends this too
    )
    _processes.add(process)
    return process


def _end(process: _Process) -> None:
    _kill(process)
    _processes.discard(process)
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            pipe.close()  # type: ignore[union-attr]
    process.wait()


def _kill(process: _Process) -> None:
    """Kill the process and those that it has started, such as tesseract."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def stop_workers() -> None:
    """Stop the processes; done when this process ends, too."""
    _idle.clear()
    while _processes:
        _end(_processes.pop())


atexit.register(stop_workers)
