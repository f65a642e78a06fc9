"""HTTP service: requests as a stream of server-sent events or as one reply, health, and a description of the API.

    event: plan      {"agents": ["sql"], "rationale": "…", "confidence": 0.9, "request_id": "…"}
    event: agent     {"agent": "sql", "status": "succeeded", "answer": "…", "tabular": {…}, "queries": ["SELECT …"], …}
    event: answer    the response as JSON; the last event
    event: error     {"type": "timeout", "message": "…", …}; the last event instead

The work ends with its client: when the connection is closed, the agents are cancelled. Secrets of the request's context
and of the configuration are replaced by `***` in every event.
"""

import asyncio
import hmac
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import ValidationError
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.security.redaction import Redact, build_redactor, redact_value
from mas.systems.bos.context import list_secrets
from mas.systems.bos.contracts import AgentRequest, AgentResult
from mas.systems.bos.program import BosProgram
from mas.systems.bos.service import astream
from mas.systems.bos.settings import LOOPBACK, ServiceSettings

Event = tuple[str, dict[str, object]]  # name and data
Events = asyncio.Queue[Event | None]  # None: no more
Work = tuple[asyncio.Task[None], Events]

MAX_BODY_BYTES = 100_000
MAX_QUESTION_CHARS = 10_000
BODY_SECONDS = 10.0  # for a client to send its request
RETRY_SECONDS = "2"
KEEP_ALIVE_SECONDS = 15.0  # between two comments of a silent stream: proxies close connections that are silent
_STATUSES = {"timeout": 504, "limit": 503}  # of errors; others: 500
_BODY = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": AgentRequest.model_json_schema()}}}
}


def make_application(
    program: BosProgram,
    settings: ServiceSettings,
    limits: SampleLimits,
    redact: Redact,
    report: Callable[[str], None],
) -> FastAPI:
    """Return the ASGI application; `/health` and `/openapi.json` need no token.

    Without a token a page of the web could reach the service through a host name that its owner points at this machine,
    so only names of this machine are accepted.

    Args:
        program: that answers the requests.
        settings: of the service.
        limits: of each request.
        redact: removes the secrets of the configuration.
        report: called with a line for each request.
    """
    desk, token = Desk(program, settings, limits, redact, report), settings.token
    app = FastAPI(title="Bos", version="1", docs_url=None, redoc_url=None)  # their pages load from elsewhere
    if not token:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, "[::1]"])
    app.add_middleware(RefusalReporter, report=report)  # the last one sees the refusals of all others

    async def begin(request: Request) -> Work:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        is_right = kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
        if token and not is_right:
            text = "The token is missing or wrong; send it as: Authorization: Bearer …"
            raise HTTPException(401, text, {"WWW-Authenticate": "Bearer"})
        return desk.begin(await read_request(request))

    @app.post("/answer", openapi_extra=_BODY)
    async def answer(request: Request) -> JSONResponse:
        """Answer a request with one JSON object."""
        work, events = await begin(request)
        gone = asyncio.create_task(_wait_until_gone(request))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            work.cancel()
        name, body = "", dict[str, object]()
        while not events.empty() and (event := events.get_nowait()) is not None:
            name, body = event
        return JSONResponse(body, _STATUSES.get(str(body["type"]), 500) if name == "error" else 200)

    @app.post("/stream", openapi_extra=_BODY)
    async def stream(request: Request) -> StreamingResponse:
        """Answer a request as server-sent events: plan, agent, and answer or error at the end."""
        events = _write_events(*await begin(request))
        return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    @app.get("/health")
    async def health() -> dict[str, object]:
        """Report that the process runs, and how many requests it works on."""
        return {"status": "ok", "open_requests": len(desk.works)}

    return app


async def read_request(request: Request) -> AgentRequest:
    """Return the request in a body; a page of another site cannot send JSON without asking first.

    Raises:
        HTTPException: the body is no JSON, too large, incomplete, or has a wrong field.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "The body must be JSON: send Content-Type: application/json.")
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    text = f"The body is larger than {MAX_BODY_BYTES:,} bytes."
                    raise HTTPException(413, text, {"Connection": "close"})
        found = AgentRequest.parse(body.decode("utf-8"))
    except TimeoutError as error:
        text = f"The body did not arrive within {BODY_SECONDS:g} seconds."
        raise HTTPException(408, text, {"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise HTTPException(400, "The connection was closed before the body was complete.") from error
    except ValidationError as error:
        fields = [f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors()]
        raise HTTPException(422, f"The request is wrong. {'; '.join(fields)[:1000]}.") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(422, "The body is no JSON in UTF-8.") from error
    if not found.question.strip() or len(found.question) > MAX_QUESTION_CHARS:
        raise HTTPException(422, f"The question is empty or longer than {MAX_QUESTION_CHARS:,} characters.")
    return found


@dataclass
class RefusalReporter:
    """Middleware that reports each request that is refused; of the others `Desk` reports how they end."""

    app: ASGIApp
    report: Callable[[str], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_report(message: Message) -> None:
            if message["type"] == "http.response.start" and 400 <= message["status"] < 500:
                self.report(f"refused with {message['status']}: {scope['method']} {scope['path'][:200]!r}")
            await send(message)

        await self.app(scope, receive, send_and_report)


@dataclass
class Desk:
    """Shared state of all requests: the program, its limits and the work in flight."""

    program: BosProgram
    settings: ServiceSettings
    limits: SampleLimits
    redact: Redact
    report: Callable[[str], None]
    works: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self, request: AgentRequest) -> Work:
        """Start the work on a request.

        Raises:
            HTTPException: as many requests as are allowed are being answered.
        """
        if len(self.works) >= self.settings.max_requests:
            text = f"{self.settings.max_requests} requests are being answered; try again in {RETRY_SECONDS} seconds."
            raise HTTPException(429, text, {"Retry-After": RETRY_SECONDS})
        events: Events = asyncio.Queue()  # at most one event for each node and one error
        work = asyncio.create_task(self._work(request, events))
        self.works.add(work)
        work.add_done_callback(self.works.discard)
        return work, events

    async def _work(self, request: AgentRequest, events: Events) -> None:
        """Put the events of the request and then None into the queue; whatever fails becomes the last event."""
        request_id, seconds, started = uuid.uuid4().hex, self.settings.request_seconds, time.monotonic()
        hide = build_redactor(list_secrets(request.context))

        def redact(text: str) -> str:
            return hide(self.redact(text))

        def put(name: str, **data: object) -> None:
            events.put_nowait((name, {**redact_value(data, redact), "request_id": request_id}))

        context, outcome = SampleContext(SampleKey(request_id), self.limits, deadline=started + seconds), "stopped"
        try:
            with use_context(context):
                async with asyncio.timeout(seconds) as timeout:
                    async for name, data in list_events(self.program, request):
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
            self.report(f"{request_id} {time.monotonic() - started:.2f} s, {outcome}")


async def list_events(program: BosProgram, request: AgentRequest) -> AsyncIterator[Event]:
    """Yield the plan, the result of each agent as it ends, and the response.

    Details of errors, such as the stack, are left out: they are for whoever debugs.
    """
    async with aclosing(astream(request, program)) as chunks:
        async for chunk in chunks:
            for node, state in chunk.items():
                if node == "plan":
                    plan = state["planner"].model_dump(mode="json", include={"rationale", "confidence"})
                    yield "plan", {**plan, "agents": list(state["planner"].chosen_agents)}
                elif node == "execute_agent":
                    yield "agent", _describe_result(state["agent_results"][-1], request)
                else:
                    hidden = None if request.trace else {"agent_results": {"__all__": {"error": {"details"}}}}
                    yield "answer", state["response"].model_dump(mode="json", exclude=hidden)


def _describe_result(result: AgentResult, request: AgentRequest) -> dict[str, object]:
    executed = [event.data["query"] for event in result.trace if "query" in event.data and event.event_type == "TOOL"]
    queries = executed if result.agent == "sql" else []
    shown = result.model_dump(mode="json", exclude=None if request.trace else {"trace": True, "error": {"details"}})
    return {**shown, "queries": queries} | ({} if request.include_data else {"tabular": None})


async def _write_events(work: asyncio.Task[None], events: Events) -> AsyncIterator[str]:
    try:
        while True:
            try:
                event = await asyncio.wait_for(events.get(), KEEP_ALIVE_SECONDS)
            except TimeoutError:
                yield ": keep-alive\n\n"
                continue
            if event is None:
                return
            yield f"event: {event[0]}\ndata: {json.dumps(event[1])}\n\n"
    finally:
        work.cancel()


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
