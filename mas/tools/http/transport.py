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
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

import httpcore
import httpx

from mas.tools.http.blocked_sites import refuse_blocked
from mas.tools.http.url_policy import normalize_url, resolve_public_host
from mas.tools.results import ToolError

MAX_CONNECTIONS = 20
PIECE_BYTES = 65_536
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

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


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
        assert isinstance(response.stream, httpx.AsyncByteStream)
        try:
            unpacked = _Capped(response.stream, _encoding(response), self._rules.max_bytes)
        except ToolError:
            await response.aclose()
            raise
        about_bytes = (b"content-encoding", b"content-length", b"transfer-encoding")
        headers = [(name, value) for name, value in response.headers.raw if name.lower() not in about_bytes]
        return httpx.Response(response.status_code, headers=headers, stream=unpacked, extensions=response.extensions)


@functools.cache
def make_tls_context() -> ssl.SSLContext:
    """Return the TLS context, made once: reading the certificates takes longer than many a request."""
    return httpx.create_ssl_context(trust_env=False)


class _Capped(httpx.AsyncByteStream):
    """Bytes of a reply, unpacked piece by piece, until there are too many."""

    def __init__(self, stream: httpx.AsyncByteStream, encoding: str, max_bytes: int) -> None:
        self._stream, self._max_bytes = stream, max_bytes
        self._unpack = Unpacker() if encoding else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            for piece in self._unpack(chunk) if self._unpack else (chunk,):
                size += len(piece)
                if size > self._max_bytes:
                    raise TooLargeError(
                        f"The reply is larger than {self._max_bytes} bytes; try a smaller page or file."
                    )
                yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class Unpacker:
    """Unpacks gzip, zlib and bare deflate, which some servers send, a piece at a time."""

    def __init__(self) -> None:
        self._inflate: zlib._Decompress | None = None  # None before the first member and between two
        self._head = b""  # too short to detect the format
        self._members = 0

    def __call__(self, packed: bytes) -> Iterator[bytes]:
        """Yield the unpacked pieces.

        Raises:
            ToolError: the bytes are not in the format that they announce.
        """
        while packed:
            if self._inflate is None:
                packed, self._head = self._head + packed, b""
                if len(packed) < 2:
                    self._head = packed
                    return
                self._inflate = self._open(packed[:2])
            if self._inflate is None:  # what follows the last member is padding
                return
            try:
                yield self._inflate.decompress(packed, PIECE_BYTES)
            except zlib.error as error:
                raise ToolError("The reply is compressed in a way that cannot be read; try another page.") from error
            packed = self._inflate.unconsumed_tail
            if self._inflate.eof:
                packed, self._inflate = self._inflate.unused_data, None

    def _open(self, head: bytes) -> "zlib._Decompress | None":
        """Choose the format by the first two bytes: gzip's mark, or zlib's header (RFC 1950), a multiple of 31."""
        self._members += 1
        if head == b"\x1f\x8b":
            return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        if self._members > 1:
            return None
        is_zlib = head[0] & 0x0F == 8 and int.from_bytes(head, "big") % 31 == 0
        return zlib.decompressobj(wbits=zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


def _encoding(response: httpx.Response) -> str:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return ""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ToolError("The reply is compressed in a way that was not asked for; try another page.")
    return str(encoding)
