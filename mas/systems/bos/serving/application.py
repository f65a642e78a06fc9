"""The application: requests as a stream or as one reply, health, readiness, a description of the API, and the page.

application, desk = make_application(program, ServiceSettings(), limits, redact, print_line)

`/`, its files, `/health`, `/ready` and `/openapi.json` need no token.
"""

import asyncio
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from mas.runtime.sample_context import SampleLimits
from mas.runtime.security.redaction import Redact
from mas.systems.bos.contracts import AgentRequest, OrchestratorResponse
from mas.systems.bos.program import BosProgram
from mas.systems.bos.serving.gate import Gate, describe_error
from mas.systems.bos.serving.work import Desk, Reply
from mas.systems.bos.settings import ServiceSettings

_PAGE = Path(__file__).with_name("page")
_BODY_SECONDS = 10.0  # for a client to send its request
_MAX_QUESTION_CHARS = 10_000
_RETRY_SECONDS = "2"
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
