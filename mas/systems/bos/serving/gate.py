"""Outermost layer of the service: request ids, the check of the Host header, headers of every reply, a line for each.

Without a token a page of the web could reach the service through a host name that its owner points at this machine, so
only names of this machine are accepted.
"""

import re
import time
import uuid
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mas.systems.bos.settings import LOOPBACK

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def describe_error(kind: str, message: str, request_id: str) -> dict[str, object]:
    """Return the body of a reply that reports an error."""
    return {"error": {"type": kind, "message": message}, "request_id": request_id}


class Gate:
    """ASGI middleware around the whole application.

    Args:
        application: the layer inside.
        checks_host: True: only names of this machine are accepted in the Host header.
        report: called with a line for each request: id, method, path, status and seconds.
    """

    def __init__(self, application: ASGIApp, checks_host: bool, report: Callable[[str], None]) -> None:
        self._application, self._checks_host, self._report = application, checks_host, report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers, started, status = Headers(scope=scope), time.perf_counter(), 0
        given = headers.get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update({**_HEADERS, "X-Request-ID": request_id})
            await send(message)

        try:
            if self._checks_host and _read_host(headers.get("host", "")) not in LOOPBACK:
                text = "The Host header does not name this machine; without a token the service answers to 127.0.0.1."
                refusal = JSONResponse(describe_error("host", text, request_id), 421)
                await refusal(scope, receive, send_with_headers)
            else:
                await self._application(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - started
            self._report(f"{request_id} {scope['method']} {scope['path'][:100]} {status} {seconds:.2f} s")


def _read_host(header: str) -> str:
    """Return the name in a Host header, without the port."""
    return header.partition("]")[0].lstrip("[") if header.startswith("[") else header.partition(":")[0].lower()
