"""SOCKS proxy of the browser, which connects to the public web only.

Nobody outside the browser sees in time what a page loads, where a redirect leads and whether a name changes its
address. The browser therefore has no connection but this proxy (RFC 1928): it looks the name up, checks all its
addresses (`mas.tools.http.url_policy`) and connects to one of them.
"""

import asyncio
import contextlib
import functools
import ipaddress
from collections.abc import Sequence

from mas.tools.http.url_policy import normalize_url, resolve_public
from mas.tools.results import ToolError

PIECE_BYTES = 2**16
REQUEST_SECONDS = 30.0  # for a request to arrive
CONNECT_SECONDS = 15.0  # to one address
_ANSWER = b"\x05%c\x00\x01" + bytes(6)  # with a status, and no address of ours
_CONNECTED, _NOT_ALLOWED = 0, 2


async def start_proxy(allow_private_hosts: Sequence[str] = ()) -> asyncio.Server:
    """Start a proxy at a free port of loopback; `allow_private_hosts` ("host", "host:port") may be private."""
    return await asyncio.start_server(functools.partial(_serve, allow_private_hosts), "127.0.0.1")


def get_port(proxy: asyncio.Server) -> int:
    return int(proxy.sockets[0].getsockname()[1])


async def _serve(
    allow_private_hosts: Sequence[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Serve one connection: greeting, request, and then the bytes of both sides."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            _, n_methods = await reader.readexactly(2)
            await reader.readexactly(n_methods)
            writer.write(b"\x05\x00")  # no password
            _, command, _, kind = await reader.readexactly(4)
            size = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
            address, port = await reader.readexactly(size), int.from_bytes(await reader.readexactly(2))
        host = address.decode("ascii") if kind == 3 else str(ipaddress.ip_address(address))
        server = await _connect(host, port, allow_private_hosts) if command == 1 else None
        writer.write(_ANSWER % (_NOT_ALLOWED if server is None else _CONNECTED))
        if server is not None:
            try:
                async with asyncio.TaskGroup() as copies:  # which one that fails ends
                    copies.create_task(_copy(reader, server[1]))
                    copies.create_task(_copy(server[0], writer))
            finally:
                server[1].close()
    except* (OSError, EOFError, ValueError, TimeoutError):
        pass  # one side closed its connection, or it is no request to a proxy
    finally:
        with contextlib.suppress(OSError):
            writer.close()
            await writer.wait_closed()


async def _connect(
    host: str, port: int, allow_private_hosts: Sequence[str]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """Connect to one of the host's addresses; None: it is not public, or none answers."""
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    with contextlib.suppress(ToolError):
        for address in await resolve_public(normalize_url(url, allow_private_hosts), allow_private_hosts):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(address, port)
    return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
