"""Work of one request over a scripted stream of the graph: its events, its reply in both forms, and how it ends."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

import pytest
from starlette.types import Message

from mas.runtime.sample_context import (
    LimitReachedError,
    SampleContext,
    SampleKey,
    SampleLimits,
    current_context,
)
from mas.systems.bos.contracts.events import TraceEvent, TraceEventType
from mas.systems.bos.contracts.names import AgentName
from mas.systems.bos.contracts.request import AgentRequest
from mas.systems.bos.contracts.response import OrchestratorResponse, PlannerDecision
from mas.systems.bos.contracts.result import AgentError, AgentExecutionStatus, AgentResult, TabularResult
from mas.systems.bos.program import BosProgram
from mas.systems.bos.serving import work
from mas.systems.bos.serving.settings import ServiceSettings
from mas.systems.bos.serving.work import Desk, Reply, list_events

pytestmark = pytest.mark.anyio
PROGRAM = cast(BosProgram, object())
LIMITS = SampleLimits(lm_calls=7)
OWN, CONFIGURED = "token-of-a-request-1", "key-of-the-configuration"
PLAN = PlannerDecision(rationale="why", chosen_agents=("sql", "api_docs"), confidence=0.75)


def tool(**data: object) -> TraceEvent:
    return TraceEvent(event_type=TraceEventType.TOOL, data=dict(data))


def fail(agent: AgentName, *trace: TraceEvent) -> AgentResult:
    error = AgentError(message="refused", type="HttpError", details={"stack": "line 1"})
    return AgentResult(agent=agent, status=AgentExecutionStatus.FAILED, error=error, trace=list(trace), latency_ms=3.0)


SQL = AgentResult(
    agent="sql",
    status=AgentExecutionStatus.SUCCEEDED,
    answer="two",
    tabular=TabularResult.from_records([{"n": 2}]),
    trace=[
        tool(query="SELECT 1"),
        TraceEvent(event_type=TraceEventType.ERROR, data={"reason": "no such column"}),
        tool(query="SELECT 2"),
    ],
    latency_ms=5.0,
)
API = fail("api_docs", tool(url="https://api.example"))
RESPONSE = OrchestratorResponse(answer="Two.", agent_results=[SQL, API], planner=PLAN, metadata={"confidence": 0.75})

SHOWN_PLAN = {"agents": ["sql", "api_docs"], "rationale": "why", "confidence": 0.75}
SHOWN_SQL = {
    "agent": "sql",
    "status": "succeeded",
    "answer": "two",
    "tabular": {"columns": ["n"], "rows": [{"n": 2}], "truncated": False, "row_count": 1},
    "error": None,
    "latency_ms": 5.0,
    "queries": ["SELECT 1", "SELECT 2"],
}
SHOWN_API = {
    "agent": "api_docs",
    "status": "failed",
    "answer": None,
    "tabular": None,
    "error": {"message": "refused", "type": "HttpError"},
    "latency_ms": 3.0,
    "queries": [],
}

Step = dict[str, Any] | BaseException | Callable[[], Awaitable[object]]


class Stream:
    """Stands in for the graph's stream: yields chunks, raises errors, awaits functions, and notes what it is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *steps: Step) -> None:
        self.steps = steps
        self.given: list[tuple[BosProgram, AgentRequest]] = []
        self.contexts: list[SampleContext | None] = []
        self.ends: list[str] = []
        monkeypatch.setattr(work, "astream", self.play)

    async def play(self, program: BosProgram, request: AgentRequest) -> AsyncGenerator[dict[str, Any]]:
        self.given.append((program, request))
        self.contexts.append(context := current_context())
        if context is not None:
            context.on_close.append(lambda: self.ends.append("context"))
        try:
            for step in self.steps:
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step, dict):
                    yield step
                else:
                    await step()
        finally:
            self.ends.append("stream")


def whole(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A stream in which a result is seen again in each later chunk, as in the state of the graph."""

    async def take_turns() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    return Stream(
        monkeypatch,
        {"plan": {"planner": PLAN}},
        take_turns,
        {"execute_agent": {"agent_results": [SQL]}},
        {"execute_agent": {"agent_results": [SQL, API]}},
        {"compose": {"response": RESPONSE}},
    )


class Client:
    """A client of one reply; it notes the messages and how many requests were open at each."""

    def __init__(self, **settings: Any) -> None:
        self.lines: list[str] = []
        self.sent: list[Message] = []
        self.n_open: list[int] = []
        self.n_works: list[int] = []
        self.received: list[Message] = []
        self.gone = asyncio.Event()
        self.desk = Desk(
            PROGRAM,
            ServiceSettings(**settings),
            LIMITS,
            lambda text: text.replace(CONFIGURED, "###"),
            self.lines.append,
        )

    async def receive(self) -> Message:
        if self.received:
            return self.received.pop(0)
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.n_open.append(self.desk.n_open)
        self.n_works.append(len(self.desk.works))

    async def ask(self, streamed: bool = True, **request: Any) -> None:
        asked = AgentRequest(question="How many?", **request)
        await Reply(self.desk, asked, "id-1", streamed)({"type": "http"}, self.receive, self.send)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> Any:
        return json.loads(b"".join(each["body"] for each in self.sent[1:]))

    @property
    def last_event(self) -> Any:
        name, data = self.sent[-2]["body"].decode().removeprefix("event: ").split("\ndata: ")
        assert data.endswith("\n\n")
        return name, json.loads(data)


async def test_the_events_are_the_plan_each_result_once_and_the_response_without_details(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, request = whole(monkeypatch), AgentRequest(question="How many?")
    answer = RESPONSE.model_dump(mode="json")
    del answer["agent_results"][1]["error"]["details"]
    assert [event async for event in list_events(PROGRAM, request)] == [
        ("plan", SHOWN_PLAN),
        ("agent", SHOWN_SQL),
        ("agent", SHOWN_API),
        ("answer", answer),
    ]
    assert (stream.given, stream.ends) == ([(PROGRAM, request)], ["stream"])


async def test_a_traced_response_has_the_details_and_events_have_no_tables_if_none_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole(monkeypatch)
    request = AgentRequest(question="How many?", trace=True, include_data=False)
    assert [event async for event in list_events(PROGRAM, request)] == [
        ("plan", SHOWN_PLAN),
        ("agent", {key: value for key, value in SHOWN_SQL.items() if key != "tabular"}),
        ("agent", {key: value for key, value in SHOWN_API.items() if key != "tabular"}),
        ("answer", RESPONSE.model_dump(mode="json")),
    ]


async def test_the_stream_of_events_is_closed_by_whoever_stops_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = whole(monkeypatch)
    events = cast(AsyncGenerator[Any], list_events(PROGRAM, AgentRequest(question="How many?")))
    assert (await anext(events))[0] == "plan"
    await events.aclose()
    assert stream.ends == ["stream"]


async def test_a_stream_is_sent_event_by_event_and_its_place_is_free_before_the_end_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, client = whole(monkeypatch), Client(max_requests=3, request_seconds=50)
    monkeypatch.setattr(work, "now", lambda: 1000.0)
    client.desk.n_open = 2
    client.received = [{"type": "http.request", "body": b"", "more_body": False}]
    await client.ask()
    answer = {**RESPONSE.model_dump(mode="json"), "request_id": "id-1"}
    del answer["agent_results"][1]["error"]["details"]
    events = (
        ("plan", {**SHOWN_PLAN, "request_id": "id-1"}),
        ("agent", {**SHOWN_SQL, "request_id": "id-1"}),
        ("agent", {**SHOWN_API, "request_id": "id-1"}),
        ("answer", answer),
    )
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
    bodies = [f"event: {name}\ndata: {json.dumps(data)}\n\n".encode() for name, data in events]
    assert client.sent == [
        {"type": "http.response.start", "status": 200, "headers": headers},
        *({"type": "http.response.body", "body": body, "more_body": True} for body in bodies),
        {"type": "http.response.body", "body": b"", "more_body": False},
    ]
    assert (client.n_open, client.n_works) == ([3, 3, 3, 3, 3, 2], [1] * 6)
    assert (client.desk.n_open, client.desk.works, client.lines) == (2, set(), [])
    [context] = stream.contexts
    assert context is not None
    assert (context.key, context.limits, context.deadline) == (SampleKey("id-1"), LIMITS, 1050.0)
    assert stream.ends == ["stream", "context"]
    assert current_context() is None


async def test_the_other_reply_is_the_answer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole(monkeypatch)
    client = Client()
    await client.ask(streamed=False, trace=True)
    assert (client.status, client.body) == (200, {**RESPONSE.model_dump(mode="json"), "request_id": "id-1"})
    assert (client.n_open, client.desk.n_open, client.desk.works) == ([0, 0], 0, set())


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


def fail_with_secrets() -> Exception:
    return RuntimeError(f"refused {OWN} and {CONFIGURED}")


FAILED = "The request failed with {}; the log has more under its id."


@pytest.mark.parametrize(
    ("step", "kind", "message", "status", "lines"),
    [
        (LimitReachedError("tokens", f"{OWN} is used up"), "limit", "A limit was reached: *** is used up.", 503, []),
        (wait_for_ever, "timeout", "The request took longer than 0.01 seconds.", 504, []),
        (
            TimeoutError("of a database"),
            "failed",
            FAILED.format("TimeoutError"),
            500,
            ["id-1 failed: TimeoutError: of a database"],
        ),
        (
            fail_with_secrets(),
            "failed",
            FAILED.format("RuntimeError"),
            500,
            ["id-1 failed: RuntimeError: refused *** and ###"],
        ),
    ],
)
async def test_what_fails_is_the_last_event_and_the_status_of_the_other_reply(
    monkeypatch: pytest.MonkeyPatch, step: Step, kind: str, message: str, status: int, lines: list[str]
) -> None:
    stream = Stream(monkeypatch, {"plan": {"planner": PLAN}}, step)
    seconds = 0.01 if step is wait_for_ever else 5
    context = {"api_bearer_token": OWN}
    streamed, single = Client(request_seconds=seconds), Client(request_seconds=seconds)
    await streamed.ask(context=context)
    assert streamed.last_event == ("error", {"type": kind, "message": message, "request_id": "id-1"})
    assert len(streamed.sent) == 4
    await single.ask(streamed=False, context=context)
    assert (single.status, single.body) == (status, {"error": {"type": kind, "message": message}, "request_id": "id-1"})
    for client in (streamed, single):
        assert (client.lines, client.desk.n_open, client.desk.works) == (lines, 0, set())
    assert stream.ends == ["stream", "context"] * 2


async def test_secrets_of_the_request_and_of_the_configuration_are_in_no_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = PlannerDecision(rationale=f"{OWN} {CONFIGURED}", chosen_agents=("sql",))
    Stream(monkeypatch, {"plan": {"planner": plan}})
    client = Client()
    await client.ask(context={"api_bearer_token": OWN})
    shown = {"agents": ["sql"], "rationale": "*** ###", "confidence": None, "request_id": "id-1"}
    assert client.last_event == ("plan", shown)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("is_stopping", "n_open", "status", "kind", "message", "retry"),
    [
        (False, 2, 429, "busy", "2 requests are being answered; try again in 2 seconds.", [(b"retry-after", b"2")]),
        (False, 3, 429, "busy", "2 requests are being answered; try again in 2 seconds.", [(b"retry-after", b"2")]),
        (True, 0, 503, "stopped", "The service is being stopped.", []),
        (True, 2, 503, "stopped", "The service is being stopped.", []),
    ],
)
async def test_a_request_without_a_place_is_refused_and_leaves_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch,
    streamed: bool,
    is_stopping: bool,
    n_open: int,
    status: int,
    kind: str,
    message: str,
    retry: list[Any],
) -> None:
    stream, client = whole(monkeypatch), Client(max_requests=2)
    client.desk.is_stopping, client.desk.n_open = is_stopping, n_open
    await client.ask(streamed=streamed)
    assert (client.status, client.body) == (status, {"error": {"type": kind, "message": message}, "request_id": "id-1"})
    assert [each for each in client.sent[0]["headers"] if each[0] == b"retry-after"] == retry
    assert (client.desk.n_open, client.desk.works, stream.given) == (n_open, set(), [])


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_work_ends_with_its_client(monkeypatch: pytest.MonkeyPatch, streamed: bool) -> None:
    client = Client()

    async def hang_up() -> None:
        client.gone.set()
        await wait_for_ever()

    stream = Stream(monkeypatch, hang_up)
    client.received = [{"type": "http.request"}, {"type": "http.request"}]
    await asyncio.wait_for(client.ask(streamed=streamed), 5)
    assert stream.ends == ["stream", "context"]
    assert (client.desk.n_open, client.desk.works, client.lines) == (0, set(), [])
    assert [each["type"] for each in client.sent] == ["http.response.start"] * streamed


async def test_a_client_that_does_not_read_has_the_time_of_the_request_and_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole(monkeypatch)
    client, waits = Client(request_seconds=20), list[Any]()

    async def wait(tasks: Any, **options: object) -> None:
        waits.append((len(tasks), options))
        await asyncio.sleep(0)  # and nothing has ended

    async def block(message: Message) -> None:
        await wait_for_ever()

    monkeypatch.setattr(asyncio, "wait", wait)
    reply = Reply(client.desk, AgentRequest(question="How many?"), "id-1", streamed=True)
    await reply({"type": "http"}, client.receive, block)
    assert waits == [(2, {"timeout": 30.0, "return_when": asyncio.FIRST_COMPLETED})]
    assert (client.desk.n_open, client.desk.works) == (0, set())
    assert {each.get_coro().__qualname__ for each in asyncio.all_tasks()}.isdisjoint(  # type: ignore[union-attr]
        ("Reply._work", "Reply._write_stream", "_wait_until_gone")
    )


async def test_a_silent_stream_is_kept_open_by_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    client, comments = Client(keep_alive_seconds=0.005), asyncio.Semaphore(0)

    async def send(message: Message) -> None:
        await client.send(message)
        if message.get("body") == b": keep-alive\n\n":
            comments.release()

    Stream(monkeypatch, comments.acquire, comments.acquire, {"plan": {"planner": PLAN}})
    reply = Reply(client.desk, AgentRequest(question="How many?"), "id-1", streamed=True)
    await asyncio.wait_for(reply({"type": "http"}, client.receive, send), 5)
    comment = {"type": "http.response.body", "body": b": keep-alive\n\n", "more_body": True}
    assert client.sent[1:3] == [comment, comment]
    assert client.last_event == ("plan", {**SHOWN_PLAN, "request_id": "id-1"})
    assert set(client.n_open[:-1]) == {1}


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_service_that_stops_ends_its_work_with_a_reason_once_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    client, later = Client(drain_seconds=12.5), list[tuple[float, Callable[[], None]]]()
    loop, works = asyncio.get_running_loop(), list[asyncio.Task[None]]()

    async def stop() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(loop, "call_later", lambda seconds, call: later.append((seconds, call)))
            client.desk.begin_shutdown()
            client.desk.begin_shutdown()  # a second signal does not begin it again
        assert client.desk.is_stopping
        [(seconds, call)] = later
        assert seconds == 12.5
        works.extend(client.desk.works)
        call()
        await wait_for_ever()

    stream = Stream(monkeypatch, stop)
    await asyncio.wait_for(client.ask(streamed=streamed), 5)
    message = "The service was stopped before the answer was complete."
    if streamed:
        assert client.last_event == ("error", {"type": "stopped", "message": message, "request_id": "id-1"})
    else:
        error = {"error": {"type": "stopped", "message": message}, "request_id": "id-1"}
        assert (client.status, client.body) == (503, error)
    assert [each.cancelled() for each in works] == [True]
    assert stream.ends == ["stream", "context"]
    assert (client.desk.n_open, client.desk.works, client.lines) == (0, set(), [])


@pytest.mark.parametrize(("n_open", "is_full"), [(0, False), (1, False), (2, True), (3, True)])
async def test_the_desk_is_full_once_as_many_requests_are_open_as_there_are_places(n_open: int, is_full: bool) -> None:
    desk = Desk(PROGRAM, ServiceSettings(max_requests=2), LIMITS, str, print)
    assert (desk.is_stopping, desk.n_open, desk.works, desk.is_full) == (False, 0, set(), False)
    desk.n_open = n_open
    assert desk.is_full is is_full
