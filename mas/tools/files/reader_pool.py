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
from collections.abc import Callable, Mapping
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
Hook = Callable[[], None]
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
    hooks: list[Hook] = []
    try:
        return await asyncio.to_thread(call_reader, task, data, arguments, hooks)
    except asyncio.CancelledError:
        for kill in hooks:
            kill()
        raise


def call_reader(task: str, data: bytes, arguments: Arguments, hooks: list[Hook] | None = None) -> Facts:
    """Return a task's answer, done in another process before the question's deadline.

    Args:
        task: `module:function`.
        arguments: values for JSON; `name` is what messages call the bytes.
        hooks: gets a function that ends the call, while there is one to end.

    Raises:
        ToolError: the bytes cannot be read, or the task took too much time or memory.
    """
    name, context, started = arguments.get("name", "The input"), current_context(), time.monotonic()
    seconds = max(0.0, min(MAX_SECONDS, context.seconds_left if context else MAX_SECONDS))
    head = json.dumps({"task": task, "size": len(data), "arguments": arguments}).encode("ascii")
    if not _places.acquire(timeout=seconds):
        raise ToolError(f"{name} is not read: other files took all the time; try again later.")
    try:
        holders = [hooks if hooks is not None else [], context.on_close if context else []]
        reply = _ask((head, b"\n", data), seconds - (time.monotonic() - started), holders)
    finally:
        _places.release()
    if reply is None:
        raise ToolError(TOO_MUCH.format(name=name))
    if "facts" not in reply:
        raise ToolError(str(reply.get("error"))[:MAX_ERROR_CHARS])
    return dict(reply["facts"])


def _ask(request: tuple[bytes, ...], seconds: float, holders: list[list[Hook]]) -> Facts | None:
    """Return the reply of a process; None if it ended, or was killed, without one."""
    try:
        process = _idle.pop()
    except IndexError:
        process = _starter.submit(_start_process).result()
    killed = threading.Event()

    def kill() -> None:
        killed.set()
        _kill(process)

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    for holder in holders:  # a thread is not cancelled with the question that started it
        holder.append(kill)
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
        for holder in holders:
            with contextlib.suppress(ValueError):  # it was called
                holder.remove(kill)
        if reply is None or killed.is_set() or reply["is_last"]:
            _end(process)
        else:
            _idle.append(process)
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
