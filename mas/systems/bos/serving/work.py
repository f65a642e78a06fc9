"""Work of one request, whose events are sent as a stream of server-sent events or as one JSON reply at the end.

    event: plan      {"agents": ["sql"], "rationale": "…", "confidence": 0.9, "request_id": "…"}
    event: agent     {"agent": "sql", "status": "succeeded", "answer": "…", "tabular": {…}, "queries": ["SELECT …"], …}
    event: answer    the response as JSON; the last event
    event: error     {"type": "timeout", "message": "…", …}; the last event instead

The work ends with its client: when the connection is closed, the agents are cancelled. Secrets of the request's context
and of the configuration are replaced by `***` in every event.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.security.redaction import Redact, build_redactor, redact_value
from mas.systems.bos.context import list_secrets
from mas.systems.bos.contracts import AgentRequest, AgentResult
from mas.systems.bos.program import BosProgram
from mas.systems.bos.service import astream
from mas.systems.bos.settings import ServiceSettings

Event = tuple[str, dict[str, object]]  # name and data
Events = asyncio.Queue[Event | None]  # None: no more

_STATUSES = {"timeout": 504, "limit": 503, "stopped": 503}  # of errors; others: 500
_WRITE_SECONDS = 10.0  # for the last events, after the time of the request is over
_KEEP_ALIVE_SECONDS = 15.0  # between two comments of a silent stream: proxies close connections that are silent


@dataclass
class Desk:
    """Shared state of all requests: the program, its limits and the work in flight."""

    program: BosProgram
    settings: ServiceSettings
    limits: SampleLimits
    redact: Redact
    report: Callable[[str], None]
    is_stopping: bool = False
    works: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def is_full(self) -> bool:
        return len(self.works) >= self.settings.max_requests

    def begin_shutdown(self) -> None:
        """Refuse new requests, and end those in flight after `drain_seconds`; called on the loop."""
        if not self.is_stopping:
            self.is_stopping = True
            asyncio.get_running_loop().call_later(self.settings.drain_seconds, self._cancel_works)

    def _cancel_works(self) -> None:
        for work in self.works:
            work.cancel()


def describe_error(kind: str, message: str, request_id: str) -> dict[str, object]:
    """Return the body of a reply that reports an error."""
    return {"error": {"type": kind, "message": message}, "request_id": request_id}


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


class Reply(Response):
    """Reply to one request, which does the work while it is sent.

    Args:
        desk: shared by all requests.
        request: of the client.
        request_id: added to every event.
        streamed: True: server-sent events; False: one JSON object at the end.
    """

    def __init__(self, desk: Desk, request: AgentRequest, request_id: str, streamed: bool) -> None:
        self._desk, self._request, self._id, self._streamed = desk, request, request_id, streamed
        self.background = None
        redact = build_redactor(list_secrets(request.context))
        self._redact: Redact = lambda text: redact(desk.redact(text))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        events: Events = asyncio.Queue()  # at most one event for each node and one error
        work = asyncio.create_task(self._work(events))
        self._desk.works.add(work)
        work.add_done_callback(self._desk.works.discard)
        write = self._write_stream(events, send) if self._streamed else self._write_json(events, scope, receive, send)
        others = [asyncio.create_task(each) for each in (write, _wait_until_gone(receive))]
        try:
            longest = self._desk.settings.request_seconds + _WRITE_SECONDS  # for a client that does not read
            await asyncio.wait(others, timeout=longest, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, *others):
                task.cancel()
            await asyncio.gather(work, *others, return_exceptions=True)

    async def _work(self, events: Events) -> None:
        """Put the events of the request and then None into the queue; whatever fails becomes the last event."""
        desk, seconds = self._desk, self._desk.settings.request_seconds
        context = SampleContext(SampleKey(self._id), desk.limits, deadline=time.monotonic() + seconds)
        try:
            with use_context(context):
                async with asyncio.timeout(seconds) as timeout:
                    async for name, data in list_events(desk.program, self._request):
                        events.put_nowait((name, {**redact_value(data, self._redact), "request_id": self._id}))
        except asyncio.CancelledError:
            events.put_nowait(self._fail("stopped", "The service was stopped before the answer was complete."))
            raise
        except Exception as error:  # noqa: BLE001  # of one request: becomes its last event
            if isinstance(error, TimeoutError) and timeout.expired():
                events.put_nowait(self._fail("timeout", f"The request took longer than {seconds:g} seconds."))
            elif isinstance(error, LimitReachedError):
                events.put_nowait(self._fail("limit", f"A limit was reached: {error}."))
            else:
                desk.report(f"{self._id} failed: {type(error).__name__}: {self._redact(str(error))}")
                message = f"The request failed with {type(error).__name__}; the log has more under its id."
                events.put_nowait(self._fail("failed", message))
        finally:
            context.close()
            events.put_nowait(None)

    def _fail(self, kind: str, message: str) -> Event:
        return "error", {"type": kind, "message": self._redact(message), "request_id": self._id}

    async def _write_stream(self, events: Events, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        is_open = True
        while is_open:
            try:
                async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                    event = await events.get()
            except TimeoutError:
                body = ": keep-alive\n\n"
            else:
                is_open = event is not None
                body = f"event: {event[0]}\ndata: {json.dumps(event[1])}\n\n" if event else ""
            await send({"type": "http.response.body", "body": body.encode(), "more_body": is_open})

    async def _write_json(self, events: Events, scope: Scope, receive: Receive, send: Send) -> None:
        name, body, status = "", dict[str, object](), 200
        while (event := await events.get()) is not None:
            name, body = event
        if name == "error":
            kind = str(body["type"])
            body, status = describe_error(kind, str(body["message"]), self._id), _STATUSES.get(kind, 500)
        await JSONResponse(body, status)(scope, receive, send)


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
