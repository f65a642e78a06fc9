"""Program inside the browser's jail: starts the browser's server, and passes bytes through the jail's two doors.

It uses only the standard library. The jail's network is empty, so these are the only ways in and out: connections to a
socket that was bound outside go to the server, and connections of the browser to its proxy go to a socket file, behind
which the real proxy listens.

    python doors.py '{"listener": 5, "port": 3000, "proxy": "/tmp/proxy.sock", …}' node cli.js …      # see jail.py
"""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

PIECE_BYTES = 2**16
RETRY_SECONDS = 0.05

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def run_server(settings: dict[str, Any], command: list[str]) -> int:
    """Return the server's exit code; connections from outside are accepted once it listens."""

    async def connect_proxy() -> _Streams:
        return await asyncio.open_unix_connection(settings["proxy"])

    async def connect_server() -> _Streams:
        return await asyncio.open_connection("127.0.0.1", settings["port"])

    async def open_front_door() -> None:
        while True:
            with contextlib.suppress(OSError):
                _, writer = await connect_server()
                writer.close()
                break
            await asyncio.sleep(RETRY_SECONDS)
        doors.append(await asyncio.start_server(pass_to(connect_server), sock=listener))

    listener = socket.socket(fileno=settings["listener"])
    doors = [await asyncio.start_server(pass_to(connect_proxy), "127.0.0.1", settings["proxy_port"])]
    server = await asyncio.create_subprocess_exec(*command, env=settings["environment"])
    opening = asyncio.create_task(open_front_door())
    code = await server.wait()
    opening.cancel()
    return code


def pass_to(
    connect: Callable[[], Awaitable[_Streams]],
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Return a callback for a server's connections that copies each to and from one of `connect`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            other_reader, other_writer = await connect()
            await asyncio.gather(copy(reader, other_writer), copy(other_reader, writer))
            other_writer.close()
        writer.close()

    return serve


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the sender has finished; a receiver that is gone ends the other direction too."""
    try:
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(run_server(json.loads(sys.argv[1]), sys.argv[2:])))
