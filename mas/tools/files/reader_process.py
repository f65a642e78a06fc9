"""Process that reads bytes made by strangers: a bomb or a bug in a library ends it and not the run.

It has no credentials in its environment, opens no connection, and has limits on memory, time and the size of files;
where bubblewrap is installed it is shut in. `reader_pool` starts it; it reads requests from its input and ends with it.
A request is a message of JSON, then the bytes in pieces up to an empty one; a reply is a message of JSON and one of
packed values. The first reply is sent once it is ready.

    python -m mas.tools.files.reader_process
"""

import json
import os
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from mas.tools.files.document import TOO_MUCH, Facts, run_task
from mas.tools.results import ToolError

MAX_MEMORY_BYTES = 4 * 1024**3  # address space; the memory in use is a fraction of it
MAX_CPU_SECONDS = 120  # of one request
MAX_FILE_BYTES = 512 * 1024 * 1024  # that it, or a program of its, writes
MAX_KEPT_BYTES = 512 * 1024 * 1024  # of memory that it still has after a reply: then it is replaced
READS = 300  # of one process before it is replaced: libraries leak memory
NICENESS = 5  # the run's own loop goes first
_CONNECTING = frozenset(("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"))
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


def main() -> None:
    """Answer requests until the input ends."""
    connection = Connection(os.dup(0))
    os.close(0)
    _end_with_parent()
    with suppress(AttributeError, OSError):  # not on every system
        os.nice(NICENESS)
    sys.addaudithook(_refuse_connections)
    _limit("RLIMIT_AS", MAX_MEMORY_BYTES)
    _limit("RLIMIT_FSIZE", MAX_FILE_BYTES)
    _limit("RLIMIT_CORE", 0)
    _reply(connection, {"ready": True})
    with suppress(EOFError, OSError):  # the run has ended
        for number in range(1, READS + 1):
            request = json.loads(connection.recv_bytes())
            data = b"".join(iter(connection.recv_bytes, b""))
            _limit_cpu()
            found, packed = _answer(request, data)
            del data
            is_last = number == READS or _measure_memory() > MAX_KEPT_BYTES
            _reply(connection, {**found, "is_last": is_last}, packed)


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


def _reply(connection: Connection, head: dict[str, object], packed: bytes = b"") -> None:
    connection.send_bytes(json.dumps(head).encode("ascii"))
    connection.send_bytes(packed)


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
