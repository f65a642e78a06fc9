"""Pool of processes that read foreign bytes; `mas.tools.files.reader_process` is their program.

facts = call_reader("mas.tools.files.kinds:read_source", data, {"name": "report.pdf", …})
facts = await await_reader("mas.tools.web.read_page:read_html", body, {"name": "The page", …})

A task is a function of bytes and values for JSON, and returns values for JSON. All of it runs on the background loop.
"""

import asyncio
import atexit
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.sample_context import current_context
from mas.runtime.security.child_environment import build_child_environment
from mas.tools.files.reader_process import Facts
from mas.tools.results import ToolError

WORKERS = max(2, min(4, os.cpu_count() or 2))  # at most; one is started when it is needed and serves until the run ends
MAX_SECONDS = 150.0  # of one call, most of it for the libraries' import on a busy machine
MAX_ERROR_CHARS = 5_000
MAX_REPLY_BYTES = 200 * 1024 * 1024

Arguments = Mapping[str, object]  # values for JSON, with the `name` that messages give the bytes
_processes: set[Process] = set()
_idle: list[Process] = []
_places = asyncio.Semaphore(WORKERS)
_parsers = ThreadPoolExecutor(WORKERS, "reader")  # all threads of the loop may be tools that wait for a file


def call_reader(task: str, data: bytes, arguments: Arguments) -> Facts:
    """Return a task's answer, done in another process before the question's deadline.

    Args:
        task: `module:function`.
        arguments: values for JSON; `name` is what messages call the bytes.

    Raises:
        ToolError: the bytes cannot be read, or the task took too much time or memory.
    """
    return run_blocking(_read(task, data, arguments))


async def await_reader(task: str, data: bytes, arguments: Arguments) -> Facts:
    """Return what `call_reader` does; a cancellation, such as that of a deadline, ends the process.

    Raises:
        ToolError: as `call_reader`.
    """
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_read(task, data, arguments), background_loop()))


async def _read(task: str, data: bytes, arguments: Arguments) -> Facts:
    name, context, has_begun, reply = arguments.get("name", "The input"), current_context(), False, b""
    head = json.dumps({"task": task, "size": len(data), "arguments": arguments}).encode("ascii")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(min(MAX_SECONDS, context.seconds_left if context else MAX_SECONDS)) as timeout:
            with context.end_with(timeout) if context else contextlib.nullcontext():
                async with _places:
                    has_begun = True
                    reply = await _ask((head, b"\n", data))
    if not has_begun:
        raise ToolError(f"{name} is not read: other files took all the time; try again later.")
    if not reply:
        raise ToolError(f"{name} took more time or memory than a file may, and is not read; go on without it.")
    answer = await asyncio.get_running_loop().run_in_executor(_parsers, json.loads, reply)
    if "facts" not in answer:
        raise ToolError(str(answer.get("error"))[:MAX_ERROR_CHARS])
    return dict(answer["facts"])


async def _ask(request: tuple[bytes, ...]) -> bytes:
    """Return the reply of a process; nothing if it ended without one. A process that has not replied is killed."""
    process, reply = _idle.pop() if _idle else await _start_process(), b""
    try:
        assert process.stdin and process.stdout
        process.stdin.writelines(request)
        await process.stdin.drain()
        reply = await process.stdout.readline()
    except (OSError, ValueError):  # it has ended; or its reply is too long
        pass
    finally:
        if reply.endswith(b"\n"):
            _idle.append(process)
        else:
            reply = b""
            _kill(process)
    return reply


async def _start_process() -> Process:
    paths = os.pathsep.join(path for path in sys.path if path)
    one_thread = dict.fromkeys(("OMP_THREAD_LIMIT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "mas.tools.files.reader_process"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=MAX_REPLY_BYTES,
        env=build_child_environment("TESSDATA_PREFIX", PYTHONPATH=paths, **one_thread),
        start_new_session=True,  # Ctrl-C is for the run, which then ends this too
    )
    _processes.add(process)
    return process


def _kill(process: Process) -> None:
    """Kill the process and those that it has started, such as tesseract."""
    _processes.discard(process)
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def stop_workers() -> None:
    """Stop the processes; done when this process ends, too."""
    _idle.clear()
    for process in list(_processes):
        _kill(process)


atexit.register(stop_workers)
