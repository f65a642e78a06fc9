"""HTTP client of the web tools: guarded, with redirects, retries and a time limit.

A name is looked up once, all its addresses are checked, and the connection goes to one of them: a second look-up can
return another. The Host header, TLS and the check of the certificate use the name. A redirect is checked like any
other request.
"""

import asyncio
import functools
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeVar

import httpx

from mas.runtime.errors import walk_chain
from mas.runtime.sample_context import current_context
from mas.tools.http.url_policy import check_public
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings

MAX_REDIRECTS = 8
MAX_ATTEMPTS = 3
MAX_RETRY_AFTER_SECONDS = 15.0  # a request is not repeated if the server asks for a longer wait
FIRST_WAIT_SECONDS = 0.5  # doubled each time, where the server names none
ENCODINGS = ("", "identity", "deflate", "gzip")  # one: a bomb in a bomb grows a million-fold unseen
_TRANSIENT = (429, 500, 502, 503, 504)
_Result = TypeVar("_Result")


class TransientError(ToolError):
    """The request failed for a reason that may be temporary."""

    def __init__(self, sentence: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.retry_after_seconds = retry_after_seconds  # as the server asks; None: it does not say


class GuardedTransport(httpx.AsyncHTTPTransport):
    """Transport that connects to addresses that it has just checked, and limits replies."""

    def __init__(self, settings: WebSettings, max_bytes: int) -> None:
        # A connection serves one request: hosts of other names may share its address.
        limits = httpx.Limits(max_keepalive_connections=0)
        super().__init__(verify=make_tls_context(), trust_env=False, limits=limits)
        self._settings, self._max_bytes = settings, max_bytes  # of one reply, after decompression

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        named, failure = request.url, httpx.TransportError("no address")
        _, addresses = await check_public(str(named), self._settings)
        name = named.raw_host.decode("ascii")
        request.extensions = {**request.extensions, "sni_hostname": name}  # in the certificate
        for address in addresses:
            request.url = named.copy_with(host=address)
            try:
                response = await super().handle_async_request(request)
                break
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
            finally:
                request.url = named
        else:
            raise failure
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in ENCODINGS:
            await response.aclose()
            raise ToolError("The reply is compressed in a way that was not asked for; try another page.")
        about_bytes = (b"content-encoding", b"content-length", b"transfer-encoding")
        headers = [(name, value) for name, value in response.headers.raw if name.lower() not in about_bytes]
        pieces = _unpack_gzip(response) if encoding == "gzip" else response.aiter_bytes()
        unpacked = _limit_size(pieces, self._max_bytes)
        return httpx.Response(response.status_code, headers=headers, content=unpacked, extensions=response.extensions)


async def _unpack_gzip(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the pieces of all members (httpx: of the first); what follows the last is padding."""
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


async def _limit_size(pieces: AsyncIterator[bytes], max_bytes: int) -> AsyncIterator[bytes]:
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise ToolError(f"The reply is larger than {max_bytes} bytes; try a smaller page or file.")
        yield piece


@functools.cache
def make_tls_context() -> ssl.SSLContext:
    """Return the TLS context, made once: reading the certificates takes longer than many a request."""
    return httpx.create_ssl_context(trust_env=False)


def open_client(settings: WebSettings, max_bytes: int, **options: Any) -> httpx.AsyncClient:
    """Return a client without the environment's proxies: our transport must look names up."""
    return httpx.AsyncClient(
        transport=GuardedTransport(settings, max_bytes),
        headers={"User-Agent": settings.user_agent, "Accept-Encoding": "gzip, deflate"},
        timeout=settings.seconds,
        max_redirects=MAX_REDIRECTS,
        trust_env=False,
        **options,
    )


async def send_request(
    method: str, url: str, settings: WebSettings, what: str, max_bytes: int, **request: Any
) -> httpx.Response:
    """Send a request until its reply has no temporary status, and follow its redirects.

    `what` is the service or host, for messages; `max_bytes` are of the reply, after decompression; `request` may have
    `params`, `json` and `headers`, as httpx takes them. ToolError: there was no reply, or it must not be read.
    """

    async def once() -> httpx.Response:
        try:
            reply = await client.request(method, url, **request)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict) as error:
            raise to_tool_error(error, what) from error
        if reply.status_code in _TRANSIENT:
            raise build_busy_error(reply, what)
        return reply

    async with open_client(settings, max_bytes, follow_redirects=True) as client:
        return await retry(once, settings, what)


async def retry(attempt: Callable[[], Awaitable[_Result]], settings: WebSettings, what: str) -> _Result:
    """Return the attempt's result; retry after a `TransientError`, within `settings.seconds`."""
    loop, context, made = asyncio.get_running_loop(), current_context(), 0
    until = loop.time() + settings.seconds
    async with limit_time(settings.seconds, what):
        while True:
            try:
                return await attempt()
            except TransientError as error:
                made, wait = made + 1, error.retry_after_seconds
                wait = FIRST_WAIT_SECONDS * 2.0 ** (made - 1) if wait is None else wait
                if made == MAX_ATTEMPTS or wait > min(MAX_RETRY_AFTER_SECONDS, until - loop.time()):
                    raise
            with context.count_waiting() if context is not None else nullcontext():
                await asyncio.sleep(wait)


@asynccontextmanager
async def limit_time(seconds: float, what: str) -> AsyncIterator[None]:
    """Raise ToolError if the work done inside takes longer."""
    try:
        async with asyncio.timeout(seconds) as timeout:
            yield
    except TimeoutError as error:
        if not timeout.expired():
            raise
        raise ToolError(
            f"{what} did not answer within {seconds:g} seconds; try again later or another source."
        ) from error


def to_tool_error(error: Exception, what: str) -> ToolError:
    if isinstance(error, httpx.TooManyRedirects):
        return ToolError(f"{what} redirects in a circle or too often; try another address.")
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in walk_chain(error, contexts=True)):
        return ToolError(f"{what} has no valid certificate, so it may be someone else; try another source.")
    if isinstance(error, httpx.TransportError) and not isinstance(error, httpx.UnsupportedProtocol):
        return TransientError(f"{what} cannot be reached or broke off; try again later or another source.")
    return ToolError(f"{what} could not be read ({type(error).__name__}); try another source.")


def build_busy_error(reply: httpx.Response, what: str) -> TransientError:
    trouble = "refuses for now: too many requests" if reply.status_code == 429 else "has trouble of its own"
    after = reply.headers.get("retry-after", "").strip()
    seconds = float(after[:9]) if after.isascii() and after.isdigit() else None  # it may be a date
    return TransientError(f"{what} {trouble} ({reply.status_code}); try again later or use another source.", seconds)
