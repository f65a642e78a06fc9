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
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.security.redaction import Redact, build_redactor, redact_value
from mas.systems.bos.contracts.request import AgentRequest, list_secrets
from mas.systems.bos.contracts.response import OrchestratorResponse, PlannerDecision
from mas.systems.bos.contracts.result import AgentResult
from mas.systems.bos.program import BosProgram
from mas.systems.bos.service import astream
from mas.systems.bos.serving.gate import describe_error
from mas.systems.bos.serving.settings import ServiceSettings

Event = tuple[str, dict[str, object]]  # name and data

_STATUSES = {"answer": 200, "timeout": 504, "limit": 503, "stopped": 503}  # others: 500
_WRITE_SECONDS = 10.0  # for the last events, after the time of the request is over
_RETRY_SECONDS = "2"


@dataclass
class Desk:
    """Shared state of all requests: the program, its limits and the work in flight."""

    program: BosProgram
    settings: ServiceSettings
    limits: SampleLimits
    redact: Redact
    report: Callable[[str], None]
    is_stopping: bool = False
    n_open: int = 0  # requests that have a place: until the end of their reply
    works: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def is_full(self) -> bool:
        return self.n_open >= self.settings.max_requests

    def begin_shutdown(self) -> None:
        """Refuse new requests, and end those in flight after `drain_seconds`; called on the loop."""
        if not self.is_stopping:
            self.is_stopping = True
            asyncio.get_running_loop().call_later(self.settings.drain_seconds, self._cancel_works)

    def _cancel_works(self) -> None:
        for work in self.works:
            work.cancel()


async def list_events(program: BosProgram, request: AgentRequest) -> AsyncIterator[Event]:
    """Yield the plan, the result of each agent as it ends, and the response."""
    shown: set[str] = set()
    async with aclosing(astream(program, request)) as chunks:
        async for chunk in chunks:
            for state in chunk.values():
                if "planner" in state:
                    yield "plan", _describe_plan(state["planner"])
                for result in state.get("agent_results", ()):
                    if result.agent not in shown:
                        shown.add(result.agent)
                        yield "agent", _describe_result(result, request.include_data)
                if "response" in state:
                    yield "answer", _describe_response(state["response"], request.trace)


def _describe_plan(decision: PlannerDecision) -> dict[str, object]:
    agents = list(decision.chosen_agents)
    return {"agents": agents, "rationale": decision.rationale, "confidence": decision.confidence}


def _describe_result(result: AgentResult, include_data: bool) -> dict[str, object]:
    queries = [event.data["query"] for event in result.trace if event.event_type == "TOOL" and result.agent == "sql"]
    shown = result.model_dump(mode="json", exclude={"trace"} if include_data else {"trace", "tabular"})
    _hide_details(shown)
    return {**shown, "queries": queries}


def _describe_response(response: OrchestratorResponse, is_traced: bool) -> dict[str, object]:
    shown = response.model_dump(mode="json")
    if not is_traced:
        for result in shown["agent_results"]:
            _hide_details(result)
    return shown


def _hide_details(result: dict[str, dict[str, object] | None]) -> None:
    """Remove an error's details, such as the stack: they are for whoever debugs."""
    (result["error"] or {}).pop("details", None)


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
        self._has_place = False
        self._redact = build_redactor(list_secrets(request.context))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        desk = self._desk
        if desk.is_stopping or desk.is_full:
            refusal = self._refuse_stopping() if desk.is_stopping else self._refuse_full()
            await refusal(scope, receive, send)
            return
        desk.n_open += 1
        self._has_place = True
        events: asyncio.Queue[Event | None] = asyncio.Queue()  # at most one event for each node and one error
        work = asyncio.create_task(self._work(events))
        desk.works.add(work)
        write = self._write_stream(events, send) if self._streamed else self._write_json(events, scope, receive, send)
        others = [asyncio.create_task(each) for each in (write, _wait_until_gone(receive))]
        try:
            longest = desk.settings.request_seconds + _WRITE_SECONDS  # for a client that does not read
            await asyncio.wait(others, timeout=longest, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, *others):
                task.cancel()
            await asyncio.gather(work, *others, return_exceptions=True)
            desk.works.discard(work)
            self._release_place()

    def _release_place(self) -> None:
        """Release the place before the end of the reply is sent: a client may ask again as soon as it has that."""
        if self._has_place:
            self._has_place = False
            self._desk.n_open -= 1

    async def _work(self, events: asyncio.Queue[Event | None]) -> None:
        """Put the events of the request and then None into the queue; whatever fails becomes the last event."""
        desk, seconds = self._desk, self._desk.settings.request_seconds
        context = SampleContext(SampleKey(self._id), desk.limits, deadline=time.monotonic() + seconds)
        try:
            with use_context(context):
                async with asyncio.timeout(seconds) as timeout, aclosing(self._list_events()) as found:
                    async for event in found:
                        events.put_nowait(event)
        except asyncio.CancelledError:
            events.put_nowait(self._fail("stopped", "The service was stopped before the answer was complete."))
            raise
        except Exception as error:  # noqa: BLE001  # of one request: becomes its last event
            if isinstance(error, TimeoutError) and timeout.expired():
                events.put_nowait(self._fail("timeout", f"The request took longer than {seconds:g} seconds."))
            elif isinstance(error, LimitReachedError):
                events.put_nowait(self._fail("limit", f"A limit was reached: {error}."))
            else:
                desk.report(f"{self._id} failed: {type(error).__name__}: {self._clean(str(error))}")
                message = f"The request failed with {type(error).__name__}; the log has more under its id."
                events.put_nowait(self._fail("failed", message))
        finally:
            context.close()
            events.put_nowait(None)

    async def _list_events(self) -> AsyncGenerator[Event]:
        async for name, data in list_events(self._desk.program, self._request):
            yield name, {**redact_value(data, self._clean), "request_id": self._id}

    def _clean(self, text: str) -> str:
        return self._redact(self._desk.redact(text))

    def _fail(self, kind: str, message: str) -> Event:
        return "error", {"type": kind, "message": self._clean(message), "request_id": self._id}

    async def _write_stream(self, events: asyncio.Queue[Event | None], send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while True:
            try:
                async with asyncio.timeout(self._desk.settings.keep_alive_seconds):
                    event = await events.get()
            except TimeoutError:
                await send({"type": "http.response.body", "body": b": keep-alive\n\n", "more_body": True})
                continue
            if event is None:
                self._release_place()
            body = b"" if event is None else f"event: {event[0]}\ndata: {json.dumps(event[1])}\n\n".encode()
            await send({"type": "http.response.body", "body": body, "more_body": event is not None})
            if event is None:
                return

    async def _write_json(
        self, events: asyncio.Queue[Event | None], scope: Scope, receive: Receive, send: Send
    ) -> None:
        name, data = "error", dict[str, object]()
        while (event := await events.get()) is not None:
            name, data = event
        kind = name if name == "answer" else str(data.get("type"))
        body = data if name == "answer" else describe_error(kind, str(data.get("message")), self._id)
        self._release_place()
        await JSONResponse(body, _STATUSES.get(kind, 500))(scope, receive, send)

    def _refuse_stopping(self) -> Response:
        return JSONResponse(describe_error("stopped", "The service is being stopped.", self._id), 503)

    def _refuse_full(self) -> Response:
        text = f"{self._desk.settings.max_requests} requests are being answered; try again in {_RETRY_SECONDS} seconds."
        return JSONResponse(describe_error("busy", text, self._id), 429, {"Retry-After": _RETRY_SECONDS})


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
