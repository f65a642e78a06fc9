"""One HTTP request and its reply, cut to a length, within a time limit. Redirects are not followed.

    async with httpx.AsyncClient() as client:
        reply = await send(client, request, {"Accept": "application/json"}, timeout_seconds=30)

Following a redirect would hand the request, perhaps with its token, to whichever address the reply names.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from mas.runtime.text import replace_surrogates
from mas.systems.bos.api.request import ApiRequest
from mas.systems.bos.contracts import AgentFailureError

MAX_BODY_BYTES = 200_000  # what is longer is cut


@dataclass(frozen=True)
class Reply:
    """Reply of the API."""

    status: int
    text: str
    truncated: bool
    elapsed_ms: float


async def send(
    client: httpx.AsyncClient, request: ApiRequest, headers: Mapping[str, str], timeout_seconds: float
) -> Reply:
    """Send a request once.

    Raises:
        AgentFailureError: the server cannot be reached, took too long, or sent no HTTP.
    """
    started, body = time.perf_counter(), b""
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
            async for part in response.aiter_bytes(64 * 1024):
                body += part
                if len(body) > MAX_BODY_BYTES:
                    break
    except (TimeoutError, httpx.TimeoutException):
        raise AgentFailureError("HttpRequestError", f"no reply within {timeout_seconds:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise AgentFailureError("HttpRequestError", f"the request failed ({reason})") from None
    kind = {"Content-Type": response.headers.get("content-type", "")}
    text = httpx.Response(response.status_code, headers=kind, content=body[:MAX_BODY_BYTES]).text
    elapsed = (time.perf_counter() - started) * 1000
    return Reply(response.status_code, replace_surrogates(text), len(body) > MAX_BODY_BYTES, elapsed)
