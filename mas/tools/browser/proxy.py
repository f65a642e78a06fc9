"""HTTP proxy of the browser, which connects to the public web only.

Nobody outside the browser sees in time what a page loads, where a redirect leads and whether a name changes its
address. The browser therefore has no connection but this proxy: it looks the name up, checks all its addresses
(`mas.tools.http.url_policy`) and connects to one of them. Encrypted traffic passes through unread, as RFC 9110
describes for CONNECT; blocked pages, which are known by their whole address, are refused by the window.

    async with await start_proxy() as proxy:
        f"http://127.0.0.1:{get_port(proxy)}"      # --proxy-server of the browser
"""

import asyncio
import contextlib
from collections.abc import Sequence
from urllib.parse import urlsplit

from mas.tools.http.url_policy import normalize_url, resolve_public_host
from mas.tools.results import ToolError

MAX_HEAD_BYTES = PIECE_BYTES = 2**16
HEAD_SECONDS = 30.0  # for a request to arrive
CONNECT_SECONDS = 15.0  # to one address
_HOP_BY_HOP = (b"connection:", b"proxy-connection:", b"proxy-authorization:", b"keep-alive:")

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _RefusedError(Exception):
    """The request is refused, with an HTTP status and a sentence for the browser."""

    def __init__(self, status: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


async def start_proxy(allow_private_hosts: Sequence[str] = ()) -> asyncio.Server:
    """Start a proxy that listens at any free port of loopback.

    Args:
        allow_private_hosts: "host" or "host:port" of servers that may be reached although they are not public.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _serve((reader, writer), allow_private_hosts)
        except _RefusedError as error:
            body = str(error).encode()
            head = f"HTTP/1.1 {error.status}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
            writer.write(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # one side closed its connection
        finally:
            with contextlib.suppress(OSError):
                writer.close()
                await writer.wait_closed()

    return await asyncio.start_server(serve, "127.0.0.1", limit=MAX_HEAD_BYTES)


def get_port(proxy: asyncio.Server) -> int:
    """Return the port on which the proxy listens."""
    return int(proxy.sockets[0].getsockname()[1])


async def _serve(browser: _Streams, allow_private_hosts: Sequence[str]) -> None:
    """Serve one connection: a tunnel, or one unencrypted request."""
    reader, writer = browser
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise _RefusedError("431 Request Header Fields Too Large", "The request's head is too long.") from error
    line, _, rest = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = parts.hostname or "", parts.port or (443 if method == "CONNECT" else 80)
    except ValueError as error:
        raise _RefusedError("400 Bad Request", "This is no request to a proxy.") from error
    if method != "CONNECT" and parts.scheme != "http":
        raise _RefusedError("400 Bad Request", "This is no request to a proxy.")
    server = await _connect(host, port, allow_private_hosts)
    try:
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = target.split("/", 3)[3:] or [""]
            server[1].write(f"{method} /{path[0]} {version}\r\n".encode() + _end_after_request(rest))
        await _copy_both_ways(browser, server)
    finally:
        server[1].close()


def _end_after_request(headers: bytes) -> bytes:
    """Return the headers without those for the proxy, to end after this request: the next may be for another host."""
    kept = [line for line in headers.split(b"\r\n") if line and not line.lower().startswith(_HOP_BY_HOP)]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


async def _connect(host: str, port: int, allow_private_hosts: Sequence[str]) -> _Streams:
    try:
        normalize_url(f"http://{f'[{host}]' if ':' in host else host}:{port}/", allow_private_hosts)
        addresses = await resolve_public_host(host, port, allow_private_hosts)
    except ToolError as error:
        raise _RefusedError("403 Forbidden", str(error)) from error
    for address in addresses:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                return await asyncio.open_connection(address, port)
    raise _RefusedError("502 Bad Gateway", f"{host} does not answer at port {port}.")


async def _copy_both_ways(browser: _Streams, server: _Streams) -> None:
    """Copy in both directions until the server has sent everything."""
    upwards = asyncio.create_task(_copy(browser[0], server[1]))
    try:
        await _copy(server[0], browser[1])
    finally:
        upwards.cancel()
        await asyncio.wait({upwards})


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the sender has finished; a receiver that is gone ends the other direction too."""
    try:
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()
