"""HTTP client of the web tools: throttled, follows redirects, retries temporary failures within a time limit.

await wait_for_turn("pages of example.org", per_minute=60)
reply = await send_request("GET", "https://example.org/", settings, "example.org", Rules(max_bytes=1_000_000))
reply.status, reply.url, reply.body
"""

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from mas.runtime.errors import walk_chain
from mas.runtime.sample_context import current_context
from mas.tools.http.transport import GuardedTransport, Rules
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings

MAX_REDIRECTS = 8
MAX_RETRY_AFTER_SECONDS = 15.0  # a request is not repeated if the server asks for a longer wait
FIRST_WAIT_SECONDS = 0.5  # doubled each time, where the server names none
BURST = 10  # requests to a service at once after a pause
_next_free: dict[str, float] = {}  # service → time.monotonic()
_lock = threading.Lock()  # several event loops of one process share the throttle
_TRANSIENT = (429, 500, 502, 503, 504)
_Result = TypeVar("_Result")


class TransientError(ToolError):
    """The request failed for a reason that may be temporary."""

    def __init__(self, sentence: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.retry_after_seconds = retry_after_seconds  # as the server asks; None: it does not say


@dataclass(frozen=True)
class Reply:
    """Complete reply of a server."""

    url: str  # after redirects
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        """Media type in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def open_client(settings: WebSettings, rules: Rules, **options: Any) -> httpx.AsyncClient:
    """Return a client without the environment's proxies and passwords: names must be looked up by our transport."""
    headers = {"User-Agent": settings.user_agent, "Accept-Encoding": "gzip, deflate"}
    return httpx.AsyncClient(
        transport=GuardedTransport(rules),
        headers=headers | options.pop("headers", {}),
        timeout=settings.seconds,
        max_redirects=MAX_REDIRECTS,
        trust_env=False,
        **{"follow_redirects": True, **options},
    )


async def send_request(method: str, url: str, settings: WebSettings, what: str, rules: Rules, **options: Any) -> Reply:
    """Send a request until there is a reply whose status is not a temporary one.

    Args:
        what: the service or host, for messages.
        options: of httpx: `params` and `content` of the request, `headers` and `event_hooks` of its client.

    Raises:
        ToolError: there was no reply, or it must not be read.
    """
    request = {name: options.pop(name) for name in ("params", "content") if name in options}

    async def once() -> Reply:
        try:
            async with client.stream(method, url, **request) as response:
                reply = Reply(str(response.url), response.status_code, response.headers, await response.aread())
        except (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict) as error:
            raise to_tool_error(error, what) from error
        if reply.status in _TRANSIENT:
            raise TransientError(describe_busy(reply.status, what), read_retry_after(reply.headers))
        return reply

    async with open_client(settings, rules, **options) as client:
        return await retry(once, settings, what)


async def retry(attempt: Callable[[], Awaitable[_Result]], settings: WebSettings, what: str) -> _Result:
    """Return the attempt's result; retry after a `TransientError`, within `settings.seconds` altogether.

    Raises:
        ToolError: that of the last attempt, or the time is over.
    """
    loop, made = asyncio.get_running_loop(), 0
    until = loop.time() + settings.seconds
    async with limit_time(settings.seconds, what):
        while True:
            try:
                return await attempt()
            except TransientError as error:
                made, named = made + 1, error.retry_after_seconds
                is_too_long = named is not None and named > min(MAX_RETRY_AFTER_SECONDS, until - loop.time())
                if made >= settings.attempts or is_too_long:
                    raise
            await sleep(FIRST_WAIT_SECONDS * 2.0 ** (made - 1) if named is None else named)


@asynccontextmanager
async def limit_time(seconds: float, what: str) -> AsyncIterator[None]:
    """Limit the time of the work done inside.

    Raises:
        ToolError: it took longer.
    """
    try:
        async with asyncio.timeout(seconds) as timeout:
            yield
    except TimeoutError as error:
        if not timeout.expired():
            raise
        sentence = f"{what} did not answer within {seconds:g} seconds; try again later or another source."
        raise ToolError(sentence) from error


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, a number or a date; None if there is none."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def to_tool_error(error: Exception, what: str) -> ToolError:
    """Return the error that tells the agent why there was no reply."""
    if isinstance(error, httpx.TooManyRedirects):
        return ToolError(f"{what} redirects in a circle or too often; try another address.")
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return ToolError(f"{what} gave or leads to an address that cannot be read; try another.")
    if isinstance(error, httpx.TimeoutException):
        return TransientError(f"{what} did not answer in time; try again later or another source.")
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in walk_chain(error, contexts=True)):
        return ToolError(f"{what} has no valid certificate, so it may be someone else; try another source.")
    if isinstance(error, httpx.ConnectError):
        return TransientError(f"{what} cannot be reached; try again later or another source.")
    if isinstance(error, httpx.DecodingError):
        return ToolError(f"{what} answered with something compressed in a way that cannot be read; try another page.")
    if isinstance(error, httpx.TransportError):
        return TransientError(f"{what} broke off or gave no proper reply; try again later or another source.")
    return ToolError(f"{what} could not be read ({type(error).__name__}); try another source.")


def describe_busy(status: int, what: str) -> str:
    """Return a sentence for a status that may be temporary."""
    if status == 429:
        return f"{what} refuses for now: too many requests (429); try again later or use another source."
    return f"{what} has trouble of its own ({status}); try again later or use another source."


async def wait_for_turn(service: str, per_minute: float | None) -> None:
    """Wait until the next request to a service may be sent, of all questions of this process; without a rate return.

    A few may go at once after a pause; then each call waits for the next free moment.
    """
    if per_minute is None:
        return
    with _lock:
        now = time.monotonic()
        interval = 60 / per_minute
        slot = max(now - (BURST - 1) * interval, _next_free.get(service, 0.0))
        _next_free[service] = slot + interval
    if slot > now:
        await sleep(slot - now)


async def sleep(seconds: float) -> None:
    """Sleep; the question's working time does not count it."""
    context = current_context()
    with context.pause_working_time() if context is not None else nullcontext():
        await asyncio.sleep(seconds)
