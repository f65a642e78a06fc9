"""The process that reads files made by strangers, so that a bomb or a bug in a library ends it and not the run.

It has no credentials in its environment, makes no connection, and has limits on memory and time. Started by `apart`, it
reads requests from its input and ends with it:

    python -m mas.tools.files.reader_process        # four bytes of length, a JSON head, the file's bytes; back comes
    JSON
"""

import json
import os
import struct
import sys
from typing import Any, BinaryIO

from mas.tools.files import ocr
from mas.tools.files.document import Source
from mas.tools.files.kinds import read_in_process
from mas.tools.results import ToolError

MAX_MEMORY_BYTES = 4 * 1024**3  # of addresses; what is really used is a fraction
MAX_CPU_SECONDS = 120  # of one file
_CONNECTING = frozenset(("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"))


def main() -> None:
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get among the replies
    sys.addaudithook(_refuse_connections)
    _limit("RLIMIT_AS", MAX_MEMORY_BYTES)
    _limit("RLIMIT_CORE", 0)
    while head := requests.read(4):
        request = json.loads(_exactly(requests, *struct.unpack(">I", head)))
        data = _exactly(requests, request["bytes"])
        _limit_cpu()
        reply = json.dumps(_answer(request, data)).encode("ascii")
        replies.write(struct.pack(">I", len(reply)) + reply)
        replies.flush()


def _answer(request: dict[str, Any], data: bytes) -> dict[str, Any]:
    try:
        with ocr.use_languages(request["ocr_languages"]):
            return {"document": read_in_process(Source(request["name"], data), request["member"]).as_dict()}
    except ToolError as error:
        return {"error": str(error)}


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        sys.exit(0)  # the run has ended
    return data


def _refuse_connections(event: str, _: tuple[Any, ...]) -> None:
    if event in _CONNECTING:
        raise PermissionError("a file's reader must not connect to anything")


def _limit(name: str, value: int) -> None:
    """Where there is such a limit: not on every system."""
    try:
        import resource

        resource.setrlimit(getattr(resource, name), (value, resource.getrlimit(getattr(resource, name))[1]))
    except (ImportError, AttributeError, ValueError, OSError):
        pass


def _limit_cpu() -> None:
    used = os.times()
    _limit("RLIMIT_CPU", int(used.user + used.system) + MAX_CPU_SECONDS)


if __name__ == "__main__":
    main()
