"""HTTP service: replies as streams of server-sent events, health, and a description of the API.

    event: plan      {"agents": ["sql"], "rationale": "…", "confidence": 0.9, "request_id": "…"}
    event: agent     {"agent": "sql", "status": "succeeded", "answer": "…", "tabular": {…}, …}
    event: answer    the response as JSON; the last event
    event: error     {"type": "timeout", "message": "…", …}; the last event instead

The work ends with its client: when the connection is closed, the agents are cancelled. Secrets of the request's context
and of the configuration are replaced by `***` in every event.
"""

import asyncio
import hmac
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, use_context
from mas.runtime.security.redaction import redact_value
from mas.system import ServiceOptions
from mas.systems.bos.contracts import AgentRequest, make_redactor
from mas.systems.bos.program import BosProgram, Chunk
from mas.systems.bos.settings import LOOPBACK, ServiceSettings

Event = tuple[str, dict[str, object]]  # name and data
Events = asyncio.Queue[Event | None]  # None: no more

MAX_BODY_BYTES = 100_000
BODY_SECONDS = 10.0  # for a client to send its request
RETRY_SECONDS = "2"
_NEED_NO_TOKEN = ("/health", "/openapi.json")


def make_application(program: BosProgram, settings: ServiceSettings, options: ServiceOptions) -> FastAPI:
    """Return the ASGI application, which without a token accepts names of this machine alone."""
    works = set[asyncio.Task[None]]()
    app = FastAPI(title="Bos", version="1", docs_url=None, redoc_url=None, max_body_size=MAX_BODY_BYTES)
    app.add_middleware(Gate, token=settings.token)
    if not settings.token:  # a page of the web could reach it through a host name that points at this machine
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, "[::1]"])

    @app.exception_handler(RequestValidationError)
    async def refuse(_: Request, error: RequestValidationError) -> JSONResponse:
        """Say what is wrong without its value, which may be a secret."""
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return JSONResponse({"detail": f"The request is wrong. {wrong[:1000]}."}, 422)

    async def begin(request: AgentRequest) -> AsyncIterator[Events]:
        """Work on the request in a task of its own as long as its client is there."""
        if len(works) >= settings.max_requests:
            text = f"{settings.max_requests} requests are being answered; try again in {RETRY_SECONDS} seconds."
            raise HTTPException(429, text, {"Retry-After": RETRY_SECONDS})
        events: Events = asyncio.Queue()  # at most one event for each node and one error
        work = asyncio.create_task(answer_request(program, request, settings.request_seconds, options, events))
        works.add(work)
        work.add_done_callback(works.discard)
        try:
            yield events
        finally:
            work.cancel()

    @app.post("/stream", response_class=EventSourceResponse)
    async def stream(events: Annotated[Events, Depends(begin)]) -> AsyncIterator[ServerSentEvent]:
        """Answer a request as server-sent events: plan, agent, and answer or error at the end."""
        while (event := await events.get()) is not None:
            yield ServerSentEvent(event=event[0], data=event[1])

    @app.get("/health")
    async def health() -> dict[str, object]:
        """Report that the process runs, and how many requests it works on."""
        return {"status": "ok", "open_requests": len(works)}

    return app


@dataclass(frozen=True)
class Gate:
    """Middleware that checks the token before a body is read, and limits a body's time to arrive."""

    app: ASGIApp
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_allowed(scope):
            detail = {"detail": "The token is missing or wrong; send it as: Authorization: Bearer …"}
            refusal = JSONResponse(detail, 401, {"WWW-Authenticate": "Bearer", "Connection": "close"})
            await refusal(scope, receive, send)
            return
        until, is_complete = asyncio.get_running_loop().time() + BODY_SECONDS, False

        async def receive_in_time() -> Message:
            nonlocal is_complete
            try:
                async with asyncio.timeout_at(None if is_complete else until):
                    message = await receive()
            except TimeoutError as error:
                text = f"The body did not arrive within {BODY_SECONDS:g} seconds."
                raise HTTPException(408, text, {"Connection": "close"}) from error
            is_complete = not message.get("more_body")
            return message

        await self.app(scope, receive_in_time, send)

    def _is_allowed(self, scope: Scope) -> bool:
        kind, _, sent = Headers(scope=scope).get("authorization", "").partition(" ")
        is_right = kind.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), self.token.encode())
        return is_right or not self.token or scope["path"] in _NEED_NO_TOKEN


async def answer_request(
    program: BosProgram, request: AgentRequest, seconds: float, options: ServiceOptions, events: Events
) -> None:
    """Put the events of the request and then None into the queue; a failure becomes the last event."""
    request_id, started = uuid.uuid4().hex, time.monotonic()
    hide = make_redactor(request.context)

    def redact(text: str) -> str:
        return hide(options.redact(text))

    def put(name: str, **data: object) -> None:
        events.put_nowait((name, {**redact_value(data, redact), "request_id": request_id}))

    context, outcome = SampleContext(SampleKey(request_id), options.limits, deadline=started + seconds), "stopped"
    try:
        with use_context(context):
            async with asyncio.timeout(seconds) as timeout, aclosing(program.stream_graph(request)) as chunks:
                async for chunk in chunks:
                    for name, data in describe_changes(chunk, request):
                        put(name, **data)
        outcome = "answered"
    except Exception as error:  # noqa: BLE001  # of one request: becomes its last event
        if isinstance(error, TimeoutError) and timeout.expired():
            outcome = f"the request took longer than {seconds:g} seconds"
            put("error", type="timeout", message=outcome)
        elif isinstance(error, LimitReachedError):
            outcome = f"a limit was reached: {error}"
            put("error", type="limit", message=outcome)
        else:
            outcome = f"failed: {type(error).__name__}: {redact(str(error))}"
            message = f"The request failed with {type(error).__name__}; the log has more under its id."
            put("error", type="failed", message=message)
    finally:
        context.close()
        events.put_nowait(None)
        options.report(f"{request_id} {time.monotonic() - started:.2f} s, {outcome}")


def describe_changes(chunk: Chunk, request: AgentRequest) -> Iterator[Event]:
    """Yield the plan, an agent's result, or the response, without what is for debugging."""
    for node, state in chunk.items():
        if node == "plan":
            plan = state["planner"].model_dump(mode="json", include={"rationale", "confidence"})
            yield "plan", {**plan, "agents": list(state["planner"].chosen_agents)}
        elif node == "execute_agent":
            shown = state["agent_results"][-1].model_dump(
                mode="json", exclude=None if request.trace else {"trace": True, "error": {"details"}}
            )
            yield "agent", shown | ({} if request.include_data else {"tabular": None})
        else:
            hidden = None if request.trace else {"agent_results": {"__all__": {"error": {"details"}}}}
            yield "answer", state["response"].model_dump(mode="json", exclude=hidden)
