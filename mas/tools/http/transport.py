"""Transport of the web tools: connects to checked addresses only and limits the size of replies.

A name is looked up once, its addresses are checked, and the connection goes to one of them: no second look-up can
return another. The URL does not change, so that the Host header, the server name of TLS and the check of the
certificate use the name. A redirect is checked like any other request. The size of a compressed reply is that of its
unpacked bytes.

    async with httpx.AsyncClient(transport=GuardedTransport(Rules(max_bytes=1_000_000)), trust_env=False) as client:
        await client.get("http://169.254.169.254/")      # NotPublicError
"""

import functools
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import httpcore
import httpx

from mas.tools.http.blocked_sites import refuse_blocked
from mas.tools.http.url_policy import normalize_url, resolve_public_host
from mas.tools.results import ToolError

MAX_CONNECTIONS = 20
GZIP = ("gzip", "x-gzip")
ENCODINGS = ("", "identity", "deflate", *GZIP)  # one: a bomb in a bomb grows a million-fold before it is counted
_SocketOptions = Iterable[
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
]  # httpcore's own


@dataclass(frozen=True)
class Rules:
    """Limits of a client: size of a reply, hosts, sites."""

    max_bytes: int  # of one reply, after decompression
    allow_private_hosts: tuple[str, ...] = ()
    blocked_sites: tuple[str, ...] = ()


class TooLargeError(ToolError):
    """The reply is larger than allowed."""


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Network backend that connects to addresses that it has just checked."""

    def __init__(self, allow_private_hosts: tuple[str, ...]) -> None:
        self._allowed = allow_private_hosts
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: _SocketOptions | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception = httpcore.ConnectError("no address")
        for address in await resolve_public_host(host, port, self._allowed):
            try:
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class GuardedTransport(httpx.AsyncHTTPTransport):
    """Transport of httpx over `PinnedBackend`, with a limit on the size of replies."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(verify=make_tls_context(), trust_env=False)
        self._rules = rules
        self._pool = httpcore.AsyncConnectionPool(  # httpx has no argument for the backend
            ssl_context=make_tls_context(),
            network_backend=PinnedBackend(rules.allow_private_hosts),
            max_connections=MAX_CONNECTIONS,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = normalize_url(str(request.url), self._rules.allow_private_hosts)
        refuse_blocked(url, self._rules.blocked_sites)
        response = await super().handle_async_request(request)
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in ENCODINGS:
            await response.aclose()
            raise ToolError("The reply is compressed in a way that was not asked for; try another page.")
        about_bytes = (b"content-encoding", b"content-length", b"transfer-encoding")
        headers = [(name, value) for name, value in response.headers.raw if name.lower() not in about_bytes]
        pieces = _unpack_gzip(response) if encoding in GZIP else response.aiter_bytes()
        unpacked = _Capped(pieces, response, self._rules.max_bytes)
        return httpx.Response(response.status_code, headers=headers, stream=unpacked, extensions=response.extensions)


@functools.cache
def make_tls_context() -> ssl.SSLContext:
    """Return the TLS context, made once: reading the certificates takes longer than many a request."""
    return httpx.create_ssl_context(trust_env=False)


async def _unpack_gzip(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the pieces of all members, of which httpx unpacks the first; what follows the last is padding."""
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    async for packed in response.aiter_raw():
        while packed:
            if member.eof:
                if not packed.startswith(b"\x1f"):
                    return
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            try:
                yield member.decompress(packed)
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from error
            packed = member.unused_data


class _Capped(httpx.AsyncByteStream):
    """Unpacked bytes of a reply, until there are too many."""

    def __init__(self, pieces: AsyncIterator[bytes], packed: httpx.Response, max_bytes: int) -> None:
        self._pieces, self._packed, self._max_bytes = pieces, packed, max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._pieces:
            size += len(piece)
            if size > self._max_bytes:
                raise TooLargeError(f"The reply is larger than {self._max_bytes} bytes; try a smaller page or file.")
            yield piece

    async def aclose(self) -> None:
        await self._packed.aclose()
