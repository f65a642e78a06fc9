"""Program inside the sandbox: reads cells from one pipe and writes their results to another.

It uses only the standard library. A message is four bytes of length and that much JSON. The code shares the process and
can read, forge or close the pipes: their reader trusts nothing, and loses no more than this session.

    python worker.py '{"max_chars": 10000, "memory_bytes": 1073741824, …}'     # see mas/tools/sandbox/process.py
"""

import json
import os
import resource
import signal
import struct
import sys

MAX_REQUEST_BYTES = 16_000_000
OUT_OF_MEMORY = 70


def main() -> None:
    """Run cells until the harness closes its end."""
    settings = json.loads(sys.argv[1])
    requests, replies = _hide_pipes()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  # pathlib takes 10 ms
    from notebook import Notebook  # type: ignore[import-not-found]  # next to this file

    sys.path[:1] = []
    sys.path += settings["packages"]
    sys.argv = [""]
    _limit(settings)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for programs in the background
    notebook = Notebook(settings["max_chars"])
    _send(replies, {"ready": True})
    try:
        while (request := _receive(requests)) is not None:
            _send(replies, {"id": request["id"], **notebook.run(request["code"])})
    except MemoryError:  # no memory left for a reply
        os._exit(OUT_OF_MEMORY)
    os._exit(0)  # also while threads of the code run


def _hide_pipes() -> tuple[int, int]:
    """Return standard input and output under other numbers; the code finds nothing at theirs."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)
    return requests, replies


def _limit(settings: dict[str, int]) -> None:
    """Set hard limits, which cannot be raised again without privileges."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: settings["cpu_seconds"],
        resource.RLIMIT_FSIZE: settings["file_bytes"],
        resource.RLIMIT_NOFILE: settings["open_files"],
        resource.RLIMIT_AS: settings["memory_bytes"],
    }
    for kind, allowed in limits.items():
        try:
            resource.setrlimit(kind, (allowed, allowed))
        except (ValueError, OSError):  # there is a lower one already, or the system lacks it
            continue


def _receive(pipe: int) -> dict[str, str] | None:
    """Return the next request; None if the harness has closed its end."""
    header = _read_bytes(pipe, 4)
    if header is None:
        return None
    length = struct.unpack(">I", header)[0]
    body = _read_bytes(pipe, min(length, MAX_REQUEST_BYTES))
    return None if body is None else dict(json.loads(body))


def _read_bytes(pipe: int, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        piece = os.read(pipe, count - len(found))
        if not piece:
            return None
        found += piece
    return found


def _send(pipe: int, message: dict[str, object]) -> None:
    body = json.dumps(message).encode()
    rest = memoryview(struct.pack(">I", len(body)) + body)
    while rest:
        rest = rest[os.write(pipe, rest) :]


if __name__ == "__main__":
    main()
