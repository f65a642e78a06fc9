"""One request and its reply: what is sent, what is cut, and what is said if there is no reply."""

import asyncio
from collections.abc import Callable
from typing import cast

import httpx
import pytest

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
