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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from mas.runtime.sample_context import current_context
from mas.runtime.security.child_environment import build_child_environment
from mas.tools.files.reader_process import TOO_MUCH, Facts
from mas.tools.results import ToolError

WORKERS = max(2, min(4, os.cpu_count() or 2))  # at most; one is started when it is needed and serves until the run ends
MAX_SECONDS = 150.0  # of one call, most of it for the libraries' import on a busy machine
MAX_ERROR_CHARS = 5_000
BUSY = "{name} is not read: other files took all the time; try again later."
MAX_REPLY_BYTES = 200 * 1024 * 1024

Arguments = Mapping[str, object]  # values for JSON, with the `name` that messages give the bytes
_Process = subprocess.Popen[bytes]
_processes: set[_Process] = set()
_idle: list[_Process] = []
_places = threading.BoundedSemaphore(WORKERS)
_starter = ThreadPoolExecutor(1, "reader")  # the kernel ends a process with the thread that has started it


async def await_reader(task: str, data: bytes, arguments: Arguments) -> Facts:
    """Return what `call_reader` does; a cancellation, such as that of a deadline, ends the process.

    Raises:
        ToolError: as `call_reader`.
    """
    call = _Call()
    try:
        return await asyncio.to_thread(call_reader, task, data, arguments, call)
    except asyncio.CancelledError:
        call.cancel()
        raise


def call_reader(task: str, data: bytes, arguments: Arguments, call: "_Call | None" = None) -> Facts:
    """Return a task's answer, done in another process before the question's deadline.

    Args:
        task: `module:function`.
        arguments: values for JSON; `name` is what messages call the bytes.
        call: which another thread may cancel.

    Raises:
        ToolError: the bytes cannot be read, or the task took too much time or memory.
    """
    name, context = arguments.get("name", "The input"), current_context()
    seconds = max(0.0, min(MAX_SECONDS, context.seconds_left if context else MAX_SECONDS))
    head = json.dumps({"task": task, "size": len(data), "arguments": arguments}).encode("ascii")
    call = call or _Call()
    hooks, timer = context.on_close if context else [], threading.Timer(seconds, call.cancel)
    hooks.append(call.cancel)  # a thread is not cancelled with the question that started it
    timer.daemon = True
    timer.start()
    try:
        if not _places.acquire(timeout=seconds):
            raise ToolError(BUSY.format(name=name))
        try:
            reply = call.run((head, b"\n", data))
        finally:
            _places.release()
    finally:
        timer.cancel()
        with contextlib.suppress(ValueError):  # it was called
            hooks.remove(call.cancel)
    if reply is None:
        raise ToolError(TOO_MUCH.format(name=name))
    if "facts" not in reply:
        raise ToolError(str(reply.get("error"))[:MAX_ERROR_CHARS])
    return dict(reply["facts"])


class _Call:
    """One call, which another thread may cancel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._is_cancelled = False

    def run(self, request: tuple[bytes, ...]) -> Facts | None:
        """Return the reply of a process; None if it ended, or was killed, without one."""
        with self._lock:
            if self._is_cancelled:
                return None
            process = self._process = _idle.pop() if _idle else _starter.submit(_start_process).result()
        reply = None
        try:
            reply = _ask(process, request)
        finally:
            with self._lock:
                self._process = None
                if reply is None or self._is_cancelled or reply["is_last"]:
                    _end(process)
                else:
                    _idle.append(process)
        return reply

    def cancel(self) -> None:
        """End the process that does the call; a call that has not begun does not begin."""
        with self._lock:
            self._is_cancelled = True
            if self._process is not None:
                _kill(self._process)


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


def _ask(process: _Process, request: tuple[bytes, ...]) -> Facts | None:
    """Return the process's reply; None if it ended, or was killed, without one."""
    assert process.stdin and process.stdout
    try:
        process.stdin.writelines(request)
        process.stdin.flush()
        return dict(json.loads(process.stdout.readline(MAX_REPLY_BYTES)))
    except (OSError, ValueError, RecursionError):
        return None


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
