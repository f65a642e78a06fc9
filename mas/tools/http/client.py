"""A request of a tool to the web, patient within its time: what may pass is tried again, a redirect followed.

async with web_client(settings, rules) as client:
    reply = await asked(client, "GET", "https://example.org/", settings, "example.org")
reply.status, reply.url, reply.body
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from mas.tools.http.settings import WebSettings
from mas.tools.http.throttle import sleep
from mas.tools.http.transport import GuardedTransport, Rules
from mas.tools.results import ToolError

FIRST_WAIT_SECONDS = 0.5  # doubled each time, where the server names none
_TRANSIENT = (429, 500, 502, 503, 504)
_Result = TypeVar("_Result")


class TransientError(ToolError):
    """It failed for a reason that may pass."""

    def __init__(self, sentence: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.retry_after_seconds = retry_after_seconds  # as the server says; None: it does not


@dataclass(frozen=True)
class Reply:
    """A whole reply; `url` is where the redirects ended."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        """Without parameters, lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@asynccontextmanager
async def open_client(settings: WebSettings, rules: Rules, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of its own, without the environment's proxies and passwords: the look-up has to be ours."""
    headers = {"User-Agent": settings.user_agent, "Accept-Encoding": "gzip, deflate"}
    async with httpx.AsyncClient(
        transport=GuardedTransport(rules),
        headers=headers | options.pop("headers", {}),
        timeout=settings.seconds,
        max_redirects=settings.max_redirects,
        trust_env=False,
        **{"follow_redirects": True, **options},
    ) as client:
        yield client


async def send_request(
    client: httpx.AsyncClient, method: str, url: str, settings: WebSettings, what: str, **request: Any
) -> Reply:
    """One request, until there is a reply of any status that will not pass.

    Args:
        what: the service or host, for the sentences.
        request: `params`, `content`, `headers` … as httpx takes them.

    Raises:
        ToolError: there was none, or it must not be read.
    """

    async def once() -> Reply:
        try:
            async with client.stream(method, url, **request) as response:
                reply = Reply(str(response.url), response.status_code, response.headers, await response.aread())
        except (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict) as error:
            raise to_tool_error(error, what) from error
        if reply.status in _TRANSIENT:
            raise TransientError(_busy(reply.status, what), read_retry_after(reply.headers))
        return reply

    return await retry(once, settings, what)


async def retry(attempt: Callable[[], Awaitable[_Result]], settings: WebSettings, what: str) -> _Result:
    """The attempt's result, tried again after a `TransientError`, within `settings.seconds` altogether.

    Raises:
        ToolError: the last attempt's, or that the time is over.
    """
    started = asyncio.get_running_loop().time()

    def give_up(state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        named = error.retry_after_seconds if isinstance(error, TransientError) else None
        left = settings.seconds - (asyncio.get_running_loop().time() - started)
        return named is not None and named > min(settings.max_retry_after_seconds, left)

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(TransientError),
        stop=lambda state: give_up(state) or stop_after_attempt(settings.attempts)(state),
        wait=_wait,
        sleep=sleep,
        reraise=True,
    )
    async with limit_time(settings.seconds, what):
        return await retrying(attempt)


@asynccontextmanager
async def limit_time(seconds: float, what: str) -> AsyncIterator[None]:
    """
    Raises:
        ToolError: what is done inside took longer.
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
    """Seconds until the server wants to be asked again, from a number or a date; None: it does not say."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def to_tool_error(error: Exception, what: str) -> ToolError:
    """The sentence for a request that got no reply."""
    if isinstance(error, httpx.TooManyRedirects):
        return ToolError(f"{what} redirects in a circle or too often; try another address.")
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return ToolError(f"{what} gave or leads to an address that cannot be read; try another.")
    if isinstance(error, httpx.TimeoutException):
        return TransientError(f"{what} did not answer in time; try again later or another source.")
    if _is_certificate(error):
        return ToolError(f"{what} has no valid certificate, so it may be someone else; try another source.")
    if isinstance(error, httpx.ConnectError):
        return TransientError(f"{what} cannot be reached; try again later or another source.")
    if isinstance(error, httpx.TransportError):
        return TransientError(f"{what} broke off or gave no proper reply; try again later or another source.")
    return ToolError(f"{what} could not be read ({type(error).__name__}); try another source.")


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    named = error.retry_after_seconds if isinstance(error, TransientError) else None
    return named if named is not None else FIRST_WAIT_SECONDS * 2.0 ** (state.attempt_number - 1)


def _busy(status: int, what: str) -> str:
    if status == 429:
        return f"{what} refuses for now: too many requests (429); try again later or use another source."
    return f"{what} has trouble of its own ({status}); try again later or use another source."


def _is_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
