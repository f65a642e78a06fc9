"""Pool of processes that read bytes made by strangers: a bomb or a bug ends one of them, not the run.

A task is a function of bytes and values for JSON, and returns values for JSON. A process
(`python -m mas.tools.files.reader_pool`) has no credentials in its environment, opens no connection, has limits on
memory, time and the size of files, and ends with its input.
"""

import asyncio
import atexit
import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import Any

from mas.runtime.event_loop import await_on_loop, run_blocking
from mas.runtime.sample_context import current_context
from mas.runtime.security.child_environment import build_child_environment
from mas.tools.results import ToolError

WORKERS = max(2, min(4, os.cpu_count() or 2))  # at most; each serves until the run ends
MAX_SECONDS = 150.0  # of one call, most of it for the libraries' import on a busy machine
MAX_ERROR_CHARS = 5_000
MAX_REPLY_BYTES = 200 * 1024 * 1024
MAX_MEMORY_BYTES = 4 * 1024**3  # address space; the memory in use is a fraction of it
MAX_CPU_SECONDS = 120  # of one request
MAX_FILE_BYTES = 512 * 1024 * 1024  # that a process, or a program of its, writes
NICENESS = 5  # the run's own loop goes first
_CONNECTING = frozenset(("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"))
_PR_SET_PDEATHSIG = 1

Facts = dict[str, Any]  # values for JSON
_processes: set[Process] = set()
_idle: list[Process] = []
_places = asyncio.Semaphore(WORKERS)


def call_reader(task: str, data: bytes, arguments: Mapping[str, object]) -> Facts:
    """Return the answer of a task (`module:function`), done in another process within the deadline.

    The arguments are values for JSON, with the `name` that messages give the bytes. ToolError: the bytes cannot be
    read, or the task took too much time or memory.
    """
    return _parse(run_blocking(_request(task, data, arguments)))


async def await_reader(task: str, data: bytes, arguments: Mapping[str, object]) -> Facts:
    """Return what `call_reader` does; a cancellation, such as that of a deadline, ends the process."""
    return await asyncio.to_thread(_parse, await await_on_loop(_request(task, data, arguments)))


def _parse(reply: bytes) -> Facts:
    answer = json.loads(reply)
    if "facts" not in answer:
        raise ToolError(str(answer.get("error"))[:MAX_ERROR_CHARS])
    return dict(answer["facts"])


async def _request(task: str, data: bytes, arguments: Mapping[str, object]) -> bytes:
    """Return the reply of a process, which is killed if it has not replied in time."""
    name, context, process, reply = arguments.get("name", "The input"), current_context(), None, b""
    head = json.dumps({"task": task, "size": len(data), "arguments": arguments}).encode("ascii")
    seconds = min(MAX_SECONDS, context.seconds_left) if context else MAX_SECONDS
    try:
        async with asyncio.timeout(seconds) as timeout:
            with context.end_with(timeout) if context else nullcontext():
                async with _places:
                    process = _idle.pop() if _idle else await _start_process()
                    assert process.stdin and process.stdout
                    process.stdin.writelines((head, b"\n", data))
                    await process.stdin.drain()
                    reply = await process.stdout.readline()
    except (TimeoutError, OSError, ValueError):  # it has ended; or its reply is too long
        pass
    finally:
        is_whole = reply.endswith(b"\n")
        if process:
            _idle.append(process) if is_whole else _kill(process)
    if process is None:
        raise ToolError(f"{name} is not read: other files took all the time; try again later.")
    if not is_whole:
        raise ToolError(f"{name} took more time or memory than a file may, and is not read; go on without it.")
    return reply


async def _start_process() -> Process:
    paths = os.pathsep.join(path for path in sys.path if path)
    one_thread = dict.fromkeys(("OMP_THREAD_LIMIT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "mas.tools.files.reader_pool"),
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
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@atexit.register
def stop_workers() -> None:
    _idle.clear()
    for process in list(_processes):
        _kill(process)


def main() -> None:
    """Answer requests until the input ends: a line of JSON and the bytes, for a line of JSON."""
    with suppress(OSError, AttributeError):  # elsewhere than on Linux it ends with its input
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)  # what a library prints
    sys.addaudithook(_refuse_connections)
    os.nice(NICENESS)
    for kind, value in (("AS", MAX_MEMORY_BYTES), ("FSIZE", MAX_FILE_BYTES), ("CORE", 0)):
        _limit(kind, value)
    for line in iter(requests.readline, b""):
        request, used = json.loads(line), os.times()
        _limit("CPU", int(used.user + used.system) + MAX_CPU_SECONDS)
        reply = _answer(request, requests.read(request["size"]))
        replies.write(json.dumps(reply).encode("ascii") + b"\n")
        replies.flush()


def _answer(request: Facts, data: bytes) -> Facts:
    module, _, function = request["task"].partition(":")
    try:
        return {"facts": getattr(importlib.import_module(module), function)(data, request["arguments"])}
    except ToolError as error:
        return {"error": str(error)}
    except MemoryError:  # ends the process without a reply
        raise
    except Exception as error:  # noqa: BLE001  # a library may raise anything
        name = request["arguments"].get("name", "The input")
        return {"error": f"{name} cannot be read: it is damaged or unusual ({type(error).__name__})."}


def _refuse_connections(event: str, _: tuple[object, ...]) -> None:
    if event in _CONNECTING:
        raise PermissionError("a file's reader must not connect to anything")


def _limit(name: str, value: int) -> None:
    with suppress(AttributeError, ValueError, OSError):  # macOS does not have all of them
        kind = getattr(resource, f"RLIMIT_{name}")
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


if __name__ == "__main__":
    main()
