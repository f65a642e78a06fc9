"""The application in this process, over a scripted model: refusals, limits, and what a reply must not show."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive

from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import LimitReachedError, SampleLimits
from mas.system import ServiceOptions
from mas.systems.bos import http_service
from mas.systems.bos.http_service import make_application
from mas.systems.bos.settings import ServiceSettings
from tests.mas.systems.bos.building import Behaviour, WrittenAgent, build, choose, succeed, use_agents
from tests.patience import wait_for
from tests.scripted_model import ScriptedModel, answering

TOKEN, CANARY = "token-of-the-service-1", "canary-of-a-context-77"


class Application:
    """The application and the lines that it reported."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, behaviour: Behaviour, **settings: Any) -> None:
        self.lines: list[str] = []
        use_agents(monkeypatch, WrittenAgent("sql", behaviour))
        program = build(ScriptedModel(answering(bos_planner=choose("sql"))))
        options = ServiceOptions(SampleLimits(), str, self.lines.append)
        self.asgi = make_application(program, ServiceSettings(**settings), options)

    def call(self, path: str, body: Any = None, method: str = "POST", **headers: str) -> httpx.Response:
        return run_blocking(self.send(path, body, method, **headers))

    async def send(self, path: str, body: Any = None, method: str = "POST", **headers: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.asgi), base_url="http://127.0.0.1:1") as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            given = {"content-type": "application/json", **named}
            return await client.request(method, path, content=content, headers=given)

    def wait_until_none_is_open(self) -> None:
        wait_for(lambda: self.call("/health", method="GET").json()["open_requests"] == 0)


def read_events(response: httpx.Response) -> list[tuple[str, Any]]:
    blocks = [each.split("\n") for each in response.text.split("\n\n") if each.startswith("event: ")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def answer_in_capitals(question: str, context: Any) -> Any:
    return succeed("sql", question.upper(), [{"n": 1}])


def test_a_stream_has_plan_agents_and_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Application(monkeypatch, answer_in_capitals)
    events = read_events(made.call("/stream", {"question": "q"}))
    assert [name for name, _ in events] == ["plan", "agent", "answer"], (events, made.lines)
    ids = {data["request_id"] for _, data in events}
    assert ids == {made.lines[0].split()[0]}
    assert (events[1][1]["answer"], events[1][1]["tabular"]["rows"]) == ("Q", [{"n": 1}])
    assert events[2][1]["answer"] == "42"
    without = read_events(made.call("/stream", {"question": "q", "include_data": False}))
    assert without[1][1]["tabular"] is without[2][1]["data"] is None


def test_requests_that_are_wrong_are_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Application(monkeypatch, answer_in_capitals)
    secret = {"question": 5, "context": {"api_bearer_token": CANARY}}
    for body, status, words in (
        (secret, 422, "question: Input should be a valid string"),
        ({"question": " "}, 422, "question"),
        ({"question": "x" * 100_001}, 413, ""),
        (b"{", 422, "JSON"),
        (b"\xff", 400, "parsing the body"),
        (b"[" * 15_000, 400, ""),
    ):
        response = made.call("/stream", body)
        assert (response.status_code, words in response.text) == (status, True), response.text
        assert CANARY not in response.text
    assert made.call("/stream", {"question": "q"}, content_type="text/plain").status_code == 422
    assert made.call("/nothing", method="GET").status_code == 404


def test_without_a_token_only_names_of_this_machine_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Application(monkeypatch, answer_in_capitals)
    for host, status in (
        ("evil.example", 400),
        ("127.0.0.1.evil.example:80", 400),
        ("localhost:1", 200),
        ("[::1]", 200),
    ):
        assert made.call("/stream", {"question": "q"}, host=host).status_code == status, host


def test_a_token_is_needed_for_answers_but_not_for_health(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOS_SERVICE_TOKEN", TOKEN)
    made = Application(monkeypatch, answer_in_capitals)
    for given in ("", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"):
        refused = made.call("/stream", {"question": "q"}, authorization=given)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert made.call("/stream", {"question": "q"}, authorization=f"Bearer {TOKEN}", host="any").status_code == 200
    for path in ("/health", "/openapi.json"):
        assert made.call(path, method="GET").status_code == 200
    schema = made.call("/openapi.json", method="GET").json()
    body = schema["paths"]["/stream"]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert "prefer_agents" in schema["components"]["schemas"][body.rpartition("/")[2]]["properties"]


def test_secrets_of_a_context_are_in_no_reply_and_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeat(question: str, context: Any) -> Any:
        return succeed("sql", f"the token is {context['api_bearer_token']}", [{"token": CANARY}])

    def fail(question: str, context: Any) -> Any:
        raise RuntimeError(f"refused {CANARY}")

    request = {"question": "q", "trace": True, "context": {"api_bearer_token": CANARY}}
    for behaviour in (repeat, fail):
        made = Application(monkeypatch, behaviour)
        reply = made.call("/stream", request).text
        assert "***" in reply
        assert not any(CANARY in text for text in [reply, *made.lines])


def test_a_limit_a_timeout_and_a_defect_are_the_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    def spend(question: str, context: Any) -> Any:
        raise LimitReachedError("tokens", "no more tokens")

    async def wait(question: str, context: Any) -> Any:
        await asyncio.sleep(60)

    for behaviour, seconds, kind in ((spend, 60, "limit"), (wait, 1, "timeout")):
        made = Application(monkeypatch, behaviour, request_seconds=seconds)
        events = read_events(made.call("/stream", {"question": "q"}))
        assert [name for name, _ in events] == ["plan", "error"]
        assert events[-1][1]["type"] == kind
        made.wait_until_none_is_open()


def test_places_are_limited_and_a_client_that_is_gone_leaves_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def wait(question: str, context: Any) -> Any:
        begun.set()
        await asyncio.sleep(60)

    made = Application(monkeypatch, wait, max_requests=1)

    async def ask_twice() -> httpx.Response:
        first = asyncio.create_task(made.send("/stream", {"question": "q"}))
        await begun.wait()
        refused = await made.send("/stream", {"question": "q"})
        first.cancel()
        await asyncio.wait({first})
        return refused

    refused = run_blocking(ask_twice())
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
    made.wait_until_none_is_open()


def post_raw(made: Application, receive: Receive) -> list[Message]:
    """What the application sends to a client that sends these messages."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST"}
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    run_blocking(made.asgi({**scope, "path": "/stream", "query_string": b"", "headers": headers}, receive, send))
    return sent


def test_the_agents_of_a_client_that_goes_away_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ends, messages = asyncio.Event(), list[str](), iter([{"type": "http.request", "body": b'{"question": "q"}'}])

    async def wait(question: str, context: Any) -> Any:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("cancelled")

    async def receive() -> Message:
        if message := next(messages, None):
            return message
        await begun.wait()
        return {"type": "http.disconnect"}

    made = Application(monkeypatch, wait)
    post_raw(made, receive)
    made.wait_until_none_is_open()
    assert ends == ["cancelled"]
    assert [line.endswith("stopped") for line in made.lines] == [True]


def test_a_body_that_does_not_arrive_is_refused_and_without_a_token_none_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = iter([{"type": "http.request", "body": b'{"que', "more_body": True}])

    async def receive() -> Message:
        return next(messages, None) or await asyncio.sleep(60, {})

    monkeypatch.setattr(http_service, "BODY_SECONDS", 0.1)
    assert post_raw(Application(monkeypatch, answer_in_capitals), receive)[0]["status"] == 408

    async def read(*_: object) -> Message:
        raise AssertionError("the body was read")

    monkeypatch.setenv("BOS_SERVICE_TOKEN", TOKEN)
    assert post_raw(Application(monkeypatch, answer_in_capitals), read)[0]["status"] == 401


def test_half_a_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = iter([{"type": "http.request", "body": b'{"que', "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(messages)

    assert post_raw(Application(monkeypatch, answer_in_capitals), receive)[0]["status"] == 400
