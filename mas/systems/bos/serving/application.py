"""The application: requests as a stream or as one reply, health, readiness, a description of the API, and the page.

application, desk = make_application(program, ServiceSettings(), limits, redact, print_line)

`/`, its files, `/health`, `/ready` and `/openapi.json` need no token.
"""

import asyncio
import hmac
import re
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mas.runtime.sample_context import SampleLimits
from mas.runtime.security.redaction import Redact
from mas.systems.bos.contracts import AgentRequest, OrchestratorResponse
from mas.systems.bos.program import BosProgram
from mas.systems.bos.serving.work import Desk, Reply, describe_error
from mas.systems.bos.settings import LOOPBACK, ServiceSettings

_PAGE = Path(__file__).with_name("page")
_BODY_SECONDS = 10.0  # for a client to send its request
_MAX_QUESTION_CHARS = 10_000
_RETRY_SECONDS = "2"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"description": "The token is missing or wrong."},
    413: {"description": "The request is too large."},
    422: {"description": "A field is missing or wrong."},
    429: {"description": "Too many requests at once; Retry-After has the seconds to wait."},
}
_BODY = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": AgentRequest.model_json_schema()}}}
}


def make_application(
    program: BosProgram,
    settings: ServiceSettings,
    limits: SampleLimits,
    redact: Redact,
    report: Callable[[str], None],
) -> tuple[ASGIApp, Desk]:
    """Return the ASGI application and the state that its requests share.

    Args:
        program: that answers the requests.
        settings: of the service.
        limits: of each request.
        redact: removes the secrets of the configuration.
        report: called with a line for each request, and for each one that failed.
    """
    desk, token = Desk(program, settings, limits, redact, report), settings.token

    async def check_token(request: Request) -> None:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        is_right = kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
        if token and not is_right:
            raise HTTPException(401, "The token is missing or wrong; send it as: Authorization: Bearer …")

    async def make_reply(request: Request, streamed: bool) -> Reply:
        question = await read_request(request, settings.max_body_bytes)
        if desk.is_stopping:
            raise HTTPException(503, "The service is being stopped.")
        if desk.is_full:
            text = f"{settings.max_requests} requests are being answered; try again in {_RETRY_SECONDS} seconds."
            raise HTTPException(429, text, {"Retry-After": _RETRY_SECONDS})
        return Reply(desk, question, request.state.request_id, streamed)

    app = FastAPI(title="Bos", version="1", docs_url=None, redoc_url=None)  # their pages load from elsewhere
    allowed = [Depends(check_token)]

    @app.post(
        "/answer", dependencies=allowed, responses=_ERRORS, openapi_extra=_BODY, response_model=OrchestratorResponse
    )
    async def answer(request: Request) -> Reply:
        """Answer a request with one JSON object."""
        return await make_reply(request, streamed=False)

    @app.post("/stream", dependencies=allowed, responses=_ERRORS, openapi_extra=_BODY, response_model=None)
    async def stream(request: Request) -> Reply:
        """Answer a request as server-sent events: plan, agent, and answer or error at the end."""
        return await make_reply(request, streamed=True)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Report that the process runs."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> JSONResponse:
        """Report whether a request would be accepted now: 200 or 503."""
        state = "stopping" if desk.is_stopping else "full" if desk.is_full else "ready"
        return JSONResponse({"status": state, "open_requests": len(desk.works)}, 200 if state == "ready" else 503)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> RedirectResponse:
        return RedirectResponse("/openapi.json")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_PAGE / "index.html")

    app.mount("/page", StaticFiles(directory=_PAGE))

    @app.exception_handler(StarletteHTTPException)
    async def describe(request: Request, error: StarletteHTTPException) -> JSONResponse:
        headers = {"WWW-Authenticate": "Bearer"} if error.status_code == 401 else {}
        body = describe_error(f"http_{error.status_code}", str(error.detail), request.state.request_id)
        return JSONResponse(body, error.status_code, {**headers, **(error.headers or {})})

    return Gate(app, checks_host=not token, report=report), desk


async def read_request(request: Request, max_bytes: int) -> AgentRequest:
    """Return the request in a body; a page of another site cannot send JSON without asking first.

    Raises:
        HTTPException: the body is no JSON, too large, too slow, or has a wrong field.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "The body must be JSON: send Content-Type: application/json.")
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > max_bytes:
                    raise HTTPException(413, f"The body is larger than {max_bytes:,} bytes.", {"Connection": "close"})
        found = AgentRequest.parse(body.decode("utf-8"))
    except TimeoutError as error:
        raise HTTPException(408, f"The body did not arrive within {_BODY_SECONDS:g} seconds.") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "The connection was closed before the body was complete.") from error
    except ValidationError as error:
        fields = [f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors()]
        raise HTTPException(422, f"The request is wrong. {'; '.join(fields)[:1000]}.") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(422, "The body is no JSON in UTF-8.") from error
    if not found.question.strip():
        raise HTTPException(422, "The question is empty.")
    if len(found.question) > _MAX_QUESTION_CHARS:
        raise HTTPException(422, f"The question is longer than {_MAX_QUESTION_CHARS:,} characters.")
    return found


class Gate:
    """ASGI middleware around the application: request ids, check of the Host header, headers, a line for each request.

    Without a token a page of the web could reach the service through a host name that its owner points at this machine,
    so only names of this machine are accepted.

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
