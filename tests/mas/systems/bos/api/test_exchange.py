"""One request and its reply: what is sent, what is cut, and what is said if there is no reply."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from mas.systems.bos.api import exchange as exchange_module
from mas.systems.bos.api.catalogue import Endpoint
from mas.systems.bos.api.exchange import Reply, send
from mas.systems.bos.api.request import ApiRequest
from mas.systems.bos.contracts.result import AgentFailureError

Handler = Callable[[httpx.Request], httpx.Response]


def exchange(
    handler: Handler, *, max_bytes: int = 100, body: dict[str, object] | None = None, query: bool = True
) -> Reply:
    async def run() -> Reply:
        endpoint = cast(Endpoint, None)
        pairs = [("a", "1"), ("a", "2")] if query else []
        method = "POST" if body is not None else "GET"
        request = ApiRequest(endpoint, method, "http://api.test/orders", pairs, {}, body, [])
        async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as client:
            return await send(client, request, {"X-Tenant": "t"}, timeout_seconds=5, max_bytes=max_bytes)

    return asyncio.run(run())


def test_the_whole_request_is_sent_once() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(302, headers={"Location": "http://elsewhere.test/"}, text="moved")

    reply = exchange(answer, body={"n": 1})
    assert (reply.status, reply.text, reply.truncated, reply.is_success) == (302, "moved", False, False)
    assert reply.elapsed_ms > 0
    (request,) = seen
    assert (request.method, str(request.url), request.content) == ("POST", "http://api.test/orders?a=1&a=2", b'{"n":1}')
    assert (request.headers["X-Tenant"], request.headers["Accept-Encoding"]) == ("t", "identity")
    exchange(answer, query=False)
    assert (seen[1].method, str(seen[1].url), seen[1].content) == ("GET", "http://api.test/orders", b"")


@pytest.mark.parametrize(("status", "expected"), [(199, False), (200, True), (299, True), (300, False), (404, False)])
def test_only_a_status_in_the_two_hundreds_is_a_success(status: int, expected: bool) -> None:
    assert Reply(status, "", False, 1.0).is_success is expected


@pytest.mark.parametrize(("size", "text", "truncated"), [(99, 99, False), (100, 100, False), (101, 100, True)])
def test_a_reply_of_exactly_the_limit_is_whole(size: int, text: int, truncated: bool) -> None:
    reply = exchange(lambda request: httpx.Response(200, content=b"x" * size))
    assert (reply.text, reply.truncated) == ("x" * text, truncated)


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=latin-1", b"Z\xfcrich", "Zürich"),
        ("text/plain; charset=utf-8", "Zürich".encode(), "Zürich"),
        ("text/plain; charset=no-such", "Zürich".encode(), "Zürich"),
        ("application/json", "Zürich".encode(), "Zürich"),
        ("application/json", b"Z\xff", "Z\ufffd"),
    ],
)
def test_text_is_read_in_its_encoding(kind: str, body: bytes, text: str) -> None:
    assert exchange(lambda request: httpx.Response(200, content=body, headers={"Content-Type": kind})).text == text


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (httpx.ReadTimeout("late"), "no reply within 5 s"),
        (TimeoutError(), "no reply within 5 s"),
        (httpx.ConnectError("refused"), "the request failed (refused)"),
        (httpx.ConnectError(""), "the request failed (ConnectError)"),
        (httpx.InvalidURL("no host"), "the request failed (no host)"),
    ],
)
def test_a_missing_reply_is_one_failure(error: Exception, message: str) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(AgentFailureError) as caught:
        exchange(fail)
    assert (caught.value.kind, str(caught.value)) == ("HttpRequestError", message)


async def send_once(client: httpx.AsyncClient, seconds: float = 5, max_bytes: int = 10) -> Reply:
    request = ApiRequest(cast(Endpoint, None), "PUT", "http://api.test/orders", [], {}, {"n": None}, [])
    return await send(client, request, {"Accept-Encoding": "br"}, timeout_seconds=seconds, max_bytes=max_bytes)


def test_a_reply_has_the_milliseconds_since_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    times, seen = iter([10.0, 10.25]), list[httpx.Request]()
    monkeypatch.setattr(exchange_module, "time", SimpleNamespace(perf_counter=lambda: next(times)))

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(201, text='{"n": 1}')

    async def run() -> Reply:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), follow_redirects=True) as client:
            return await send_once(client)

    assert asyncio.run(run()) == Reply(201, '{"n": 1}', False, 250.0)
    [request] = seen
    assert request.extensions["timeout"] == dict.fromkeys(("connect", "read", "write", "pool"), 5)
    assert (request.headers.get_list("accept-encoding"), request.content) == (["br"], b'{"n":null}')


def test_a_redirect_is_a_reply_even_to_a_client_that_follows_them() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return httpx.Response(307, headers={"Location": "http://elsewhere.test/"})

    async def run() -> Reply:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), follow_redirects=True) as client:
            return await send_once(client)

    assert (asyncio.run(run()).status, asked) == (307, ["api.test"])


def test_of_a_long_reply_no_more_is_read_than_is_kept() -> None:
    parts = [b"x" * 65_536, b"y" * 65_536, b"z" * 65_536]
    read: list[int] = []

    class Body(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for number, part in enumerate(parts):
                read.append(number)
                yield part

    async def run(max_bytes: int) -> tuple[str, bool, list[int]]:
        read.clear()
        transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Body()))
        async with httpx.AsyncClient(transport=transport) as client:
            reply = await send_once(client, max_bytes=max_bytes)
        return reply.text, reply.truncated, list(read)

    assert asyncio.run(run(65_535)) == ("x" * 65_535, True, [0])
    assert asyncio.run(run(65_536)) == ("x" * 65_536, True, [0, 1])
    assert asyncio.run(run(3 * 65_536)) == (b"".join(parts).decode(), False, [0, 1, 2])


def test_a_server_that_never_answers_has_the_seconds_of_the_settings() -> None:
    async def hang(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        return httpx.Response(200)

    async def run() -> Reply:
        async with httpx.AsyncClient(transport=httpx.MockTransport(hang)) as client:
            return await send_once(client, seconds=0.01)

    with pytest.raises(AgentFailureError) as caught:
        asyncio.run(run())
    assert (caught.value.kind, str(caught.value)) == ("HttpRequestError", "no reply within 0.01 s")
