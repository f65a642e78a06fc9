"""Packages built on `requests` go through our client: a session has no other way out, and replies keep their form."""

import asyncio

import pytest
import requests

from mas.tools.http.blocking_requests import GuardedAdapter, call_package, make_session, run_on_loop
from mas.tools.http.client import Reply
from mas.tools.results import ToolError


def test_a_reply_is_handed_to_the_package_as_requests_would() -> None:
    sent: list[requests.PreparedRequest] = []
    headers = {"Content-Type": "text/plain; charset=latin-1", "X-Own": "1"}

    async def send(request: requests.PreparedRequest) -> Reply:
        sent.append(request)
        return Reply("http://example.org/end", 203, headers, b"caf\xe9")

    async def run() -> requests.Response:
        adapter = GuardedAdapter(asyncio.get_running_loop(), send)
        session = make_session(adapter)
        assert not session.trust_env and dict(session.adapters) == {"https://": adapter, "http://": adapter}
        with pytest.raises(requests.exceptions.InvalidSchema):
            session.get("ftp://example.org/")
        return await call_package(lambda: session.get("https://example.org/start", params={"a": 1}))

    response = asyncio.run(run())
    assert [(each.method, each.url) for each in sent] == [("GET", "https://example.org/start?a=1")]
    assert (response.status_code, response.url, response.text) == (203, "http://example.org/end", "caf\xe9")
    assert dict(response.headers) == headers and response.encoding == "latin-1" and response.request is sent[0]


def test_an_error_of_the_sending_reaches_the_package() -> None:
    async def refuse() -> Reply:
        raise ToolError("refused")

    async def run() -> Reply:
        loop = asyncio.get_running_loop()
        return await call_package(lambda: run_on_loop(loop, refuse))

    with pytest.raises(ToolError, match=r"^refused$"):
        asyncio.run(run())


def test_a_package_that_would_end_the_loop_is_a_sentence() -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(ToolError, match=r"^The request .*; try again\.$"):
        asyncio.run(call_package(leave))
