"""Process that reads files made by strangers: a bomb or a bug in a library ends it and not the run.

It has no credentials in its environment, opens no connection, and has limits on memory and time. `reader_pool` starts
it; it reads requests from its input and ends with it. A request is four bytes of length, a JSON head and the file's
bytes; a reply is four bytes of length and JSON.

    python -m mas.tools.files.reader_process
"""

import json
import os
import struct
import sys
from collections.abc import Mapping
from typing import BinaryIO

from mas.tools.files import ocr
from mas.tools.files.document import Source
from mas.tools.files.kinds import read_in_process
from mas.tools.files.reader_pool import ReaderReply
from mas.tools.results import ToolError

MAX_MEMORY_BYTES = 4 * 1024**3  # address space; the memory in use is a fraction of it
MAX_CPU_SECONDS = 120  # of one file
_CONNECTING = frozenset(("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"))


def main() -> None:
    """Answer requests until the input ends."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a library must not mix with the replies
    sys.addaudithook(_refuse_connections)
    _limit("RLIMIT_AS", MAX_MEMORY_BYTES)
    _limit("RLIMIT_CORE", 0)
    while head := requests.read(4):
        request = json.loads(_read_exactly(requests, *struct.unpack(">I", head)))
        data = _read_exactly(requests, request["bytes"])
        _limit_cpu()
        reply = json.dumps(_answer(request, data)).encode("ascii")
        replies.write(struct.pack(">I", len(reply)) + reply)
        replies.flush()


def _answer(request: Mapping[str, str | None], data: bytes) -> ReaderReply:
    try:
        source = Source(str(request["name"]), data)
        with ocr.use_languages(str(request["ocr_languages"])):
            return {"document": read_in_process(source, request["member"]).to_json()}
    except ToolError as error:
        return {"error": str(error)}


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        sys.exit(0)  # the run has ended
    return data


def _refuse_connections(event: str, _: tuple[object, ...]) -> None:
    if event in _CONNECTING:
        raise PermissionError("a file's reader must not connect to anything")


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


if __name__ == "__main__":
    main()
