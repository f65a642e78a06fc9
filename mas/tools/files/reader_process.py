"""Process that reads bytes made by strangers: a bomb or a bug in a library ends it and not the run.

It has no credentials in its environment, opens no connection, and has limits on memory, time and the size of files. A
request is a line of JSON and the bytes; a reply is a line of JSON. `reader_pool` starts it; it ends with its input.

    python -m mas.tools.files.reader_process
"""

import ctypes
import importlib
import json
import os
import resource
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from mas.tools.results import ToolError

MAX_MEMORY_BYTES = 4 * 1024**3  # address space; the memory in use is a fraction of it
MAX_CPU_SECONDS = 120  # of one request
MAX_FILE_BYTES = 512 * 1024 * 1024  # that it, or a program of its, writes
NICENESS = 5  # the run's own loop goes first
_CONNECTING = frozenset(("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"))
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9

Facts = dict[str, Any]  # values for JSON
Task = Callable[[bytes, Mapping[str, Any]], Facts]


def main() -> None:
    """Answer requests until the input ends."""
    with suppress(OSError, AttributeError):  # elsewhere than on Linux it ends with its input
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)  # what a library prints
    sys.addaudithook(_refuse_connections)
    os.nice(NICENESS)
    _limit("RLIMIT_AS", MAX_MEMORY_BYTES)
    _limit("RLIMIT_FSIZE", MAX_FILE_BYTES)
    _limit("RLIMIT_CORE", 0)
    for line in iter(requests.readline, b""):
        request, used = json.loads(line), os.times()
        _limit("RLIMIT_CPU", int(used.user + used.system) + MAX_CPU_SECONDS)
        reply = _answer(request, requests.read(request["size"]))
        replies.write(json.dumps(reply).encode("ascii") + b"\n")
        replies.flush()


def _answer(request: Facts, data: bytes) -> Facts:
    module, _, function = request["task"].partition(":")
    try:
        run: Task = getattr(importlib.import_module(module), function)
        return {"facts": run(data, request["arguments"])}
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
    """Set a limit, if the system has it."""
    with suppress(AttributeError, ValueError, OSError):
        kind = getattr(resource, name)
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


if __name__ == "__main__":
    main()
