"""Process that reads bytes made by strangers: a bomb or a bug in a library ends it and not the run.

It has no credentials in its environment, opens no connection, and has limits on memory, time and the size of files;
where bubblewrap is installed it is shut in. `reader_pool` starts it; it reads requests from its input and ends with it.
A request is four bytes of length, a JSON head and the bytes that the head counts; a reply has the same form. The first
reply is sent once it is ready.

    python -m mas.tools.files.reader_process
"""

import json
import os
import struct
import sys
from contextlib import suppress
from typing import BinaryIO

from mas.tools.files.tasks import TOO_MUCH, Facts, run_task
from mas.tools.results import ToolError

MAX_MEMORY_BYTES = 4 * 1024**3  # address space; the memory in use is a fraction of it
MAX_CPU_SECONDS = 120  # of one request
MAX_FILE_BYTES = 512 * 1024 * 1024  # that it, or a program of its, writes
MAX_KEPT_BYTES = 512 * 1024 * 1024  # of memory that it still has after a reply: then it is replaced
NICENESS = 5  # the run's own loop goes first
_CONNECTING = frozenset(("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"))
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


def main() -> None:
    """Answer requests until the input ends."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a library must not mix with the replies
    _end_with_parent()
    with suppress(AttributeError, OSError):  # not on every system
        os.nice(NICENESS)
    sys.addaudithook(_refuse_connections)
    _limit("RLIMIT_AS", MAX_MEMORY_BYTES)
    _limit("RLIMIT_FSIZE", MAX_FILE_BYTES)
    _limit("RLIMIT_CORE", 0)
    _reply(replies, {"ready": True})
    while head := requests.read(4):
        request = json.loads(_read_exactly(requests, *struct.unpack(">I", head)))
        data = _read_exactly(requests, request["bytes"])
        _limit_cpu()
        found, packed = _answer(request, data)
        del data
        _reply(replies, {**found, "is_large": _measure_memory() > MAX_KEPT_BYTES}, packed)


def _answer(request: Facts, data: bytes) -> tuple[dict[str, object], bytes]:
    name = str(request["arguments"].get("name", "The input"))
    try:
        answer = run_task(request["task"], data, request["arguments"])
        return {"facts": answer.facts}, answer.packed
    except ToolError as error:
        return {"error": str(error)}, b""
    except MemoryError:
        return {"error": TOO_MUCH.format(name=name)}, b""
    except Exception as error:  # noqa: BLE001  # a library may raise anything
        return {"error": f"{name} cannot be read: it is damaged or unusual ({type(error).__name__})."}, b""


def _reply(replies: BinaryIO, head: dict[str, object], packed: bytes = b"") -> None:
    text = json.dumps({**head, "bytes": len(packed)}).encode("ascii")
    replies.write(struct.pack(">I", len(text)) + text)
    replies.write(packed)
    replies.flush()


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        sys.exit(0)  # the run has ended
    return data


def _refuse_connections(event: str, _: tuple[object, ...]) -> None:
    if event in _CONNECTING:
        raise PermissionError("a file's reader must not connect to anything")


def _end_with_parent() -> None:
    """Let the kernel kill this process with the run; where it cannot, the process ends with its input."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def _limit(name: str, value: int) -> None:
    """Set a limit, if the system has it."""
    try:
        import resource

        resource.setrlimit(getattr(resource, name), (value, resource.getrlimit(getattr(resource, name))[1]))
    except (ImportError, AttributeError, ValueError, OSError):
        pass


def _limit_cpu() -> None:
    used = os.times()
    _limit("RLIMIT_CPU", int(used.user + used.system) + MAX_CPU_SECONDS)


def _measure_memory() -> int:
    """Return the bytes of memory in use; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - an import less
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


if __name__ == "__main__":
    main()
