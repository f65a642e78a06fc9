"""One HTTP request and its reply, cut to a length, within a time limit. Redirects are not followed.

    async with httpx.AsyncClient() as client:
        reply = await send(client, request, {"Accept": "application/json"}, timeout_seconds=30, max_bytes=200_000)

Following a redirect would hand the request, perhaps with its token, to whichever address the reply names.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from mas.runtime.text import replace_surrogates
from mas.systems.bos.api.request import ApiRequest
from mas.systems.bos.contracts.result import AgentFailureError


@dataclass(frozen=True)
class Reply:
    """Reply of the API."""

    status: int
    text: str
    truncated: bool
    elapsed_ms: float

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


async def send(
    client: httpx.AsyncClient,
    request: ApiRequest,
    headers: Mapping[str, str],
    *,
    timeout_seconds: float,
    max_bytes: int,
) -> Reply:
    """Send a request once.

    Raises:
        AgentFailureError: the server cannot be reached, took too long, or sent no HTTP.
    """
    started = time.perf_counter()
    try:
        async with (
            asyncio.timeout(timeout_seconds),
            client.stream(
                request.method,
                request.url,
                params=list(request.query) or None,
                json=request.json_body,
                headers={"Accept-Encoding": "identity", **headers},
                follow_redirects=False,
                timeout=timeout_seconds,
            ) as response,
        ):
            body, truncated = await _read_body(response, max_bytes)
    except (TimeoutError, httpx.TimeoutException):
        raise AgentFailureError("HttpRequestError", f"no reply within {timeout_seconds:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise AgentFailureError("HttpRequestError", f"the request failed ({reason})") from None
    text = replace_surrogates(_decode(body, response.charset_encoding))
    return Reply(response.status_code, text, truncated, (time.perf_counter() - started) * 1000)


async def _read_body(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    parts, size = [], 0
    async for part in response.aiter_bytes(64 * 1024):
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            break
    return b"".join(parts)[:max_bytes], size > max_bytes


def _decode(body: bytes, encoding: str | None) -> str:
    try:
        return body.decode(encoding or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")
