"""Pool of processes that read foreign bytes; `mas.tools.files.reader_process` is their program.

facts = call_reader("mas.tools.files.kinds:read_source", data, {"name": "report.pdf", …})
facts = await await_reader("mas.tools.web.html_page:read_html", body, {"name": "The page", …})

A task is a function of bytes and values for JSON, and returns values for JSON.
"""

import asyncio
import atexit
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

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


def call_reader(task: str, data: bytes, arguments: Arguments) -> Facts:
    """Return a task's answer, done in another process before the question's deadline.

    Args:
        task: `module:function`.
        arguments: values for JSON; `name` is what messages call the bytes.

    Raises:
        ToolError: the bytes cannot be read, or the task took too much time or memory.
    """
    with _submit(task, data, arguments) as (future, seconds):
        return future.result(seconds)


async def await_reader(task: str, data: bytes, arguments: Arguments) -> Facts:
    """Return what `call_reader` does; a cancellation, such as that of a deadline, ends the process.

    Raises:
        ToolError: as `call_reader`.
    """
    with _submit(task, data, arguments) as (future, seconds):
        return await asyncio.wait_for(asyncio.wrap_future(future), seconds)


@contextlib.contextmanager
def _submit(task: str, data: bytes, arguments: Arguments) -> "Iterator[tuple[Future[Facts], float]]":
    """Begin a call; its process is killed if the call has not ended with the block, or with the question."""
    context = current_context()
    call, hooks = _Call(task, data, arguments), context.on_close if context else []
    hooks.append(call.cancel)  # a thread is not cancelled with the question that started it
    future = _threads().submit(call.run)
    try:
        yield future, min(MAX_SECONDS, context.seconds_left if context else MAX_SECONDS)
    except TimeoutError as error:
        has_begun = not future.cancel()
        raise ToolError((TOO_MUCH if has_begun else BUSY).format(name=arguments.get("name", "The input"))) from error
    finally:
        call.cancel()
        with contextlib.suppress(ValueError):  # it was called
            hooks.remove(call.cancel)


class _Call:
    """One call, done in a thread of the pool and cancelled from another."""

    def __init__(self, task: str, data: bytes, arguments: Arguments) -> None:
        head = {"task": task, "size": len(data), "arguments": arguments}
        self._name, self._request = arguments.get("name", "The input"), (json.dumps(head).encode("ascii"), b"\n", data)
        self._process: _Process | None = None
        self._is_cancelled = False

    def run(self) -> Facts:
        """Return the answer of a process."""
        process = self._process = _take_process()
        reply: Facts | None = None
        try:
            reply = None if self._is_cancelled else _ask(process, self._request)
        finally:
            self._process = None
            if reply is None or self._is_cancelled or reply["is_last"]:
                _end(process)
            else:
                _idle.append(process)
        if reply is None:
            raise ToolError(TOO_MUCH.format(name=self._name))
        if "facts" not in reply:
            raise ToolError(str(reply.get("error"))[:MAX_ERROR_CHARS])
        return dict(reply["facts"])

    def cancel(self) -> None:
        """End the process that does the call; a call that has not begun does not begin."""
        self._is_cancelled = True
        if (process := self._process) is not None:
            _kill(process)


def _take_process() -> _Process:
    try:
        return _idle.pop()
    except IndexError:
        return _start_process()


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


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, "reader")


def stop_workers() -> None:
    """Stop the processes; done when this process ends, too."""
    _threads().shutdown()
    _threads.cache_clear()
    _idle.clear()
    while _processes:
        _end(_processes.pop())


atexit.register(stop_workers)
