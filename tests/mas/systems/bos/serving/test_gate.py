"""The layer around the application: request ids, headers of replies, the Host header, and a line for each request."""

import asyncio
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from mas.systems.bos.serving import gate
from mas.systems.bos.serving.gate import Gate, describe_error

HEADERS = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}


def pass_through(checks_host: bool = True, **changes: Any) -> tuple[list[Message], list[str], list[Scope]]:
    """Return what was sent, what was reported, and the scopes that came to the application."""
    sent: list[Message] = []
    lines: list[str] = []
    scopes: list[Scope] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await send({"type": "http.response.start", "status": 204, "headers": [(b"cache-control", b"public")]})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(name.encode(), value.encode()) for name, value in changes.pop("headers", {}).items()]
    scope = {"type": "http", "method": "GET", "path": "/ask", "headers": headers, **changes}
    asyncio.run(Gate(application, checks_host, lines.append)(scope, receive, send))
    return sent, lines, scopes


LOCAL = {"host": "127.0.0.1:8765", "x-request-id": "my-id_1.2"}


def test_a_reply_has_the_headers_and_the_given_id() -> None:
    sent, lines, scopes = pass_through(headers=LOCAL)
    assert [each["type"] for each in sent] == ["http.response.start", "http.response.body"]
    assert dict(sent[0]["headers"]) == {**HEADERS, b"x-request-id": b"my-id_1.2"}
    assert [each["state"] for each in scopes] == [{"request_id": "my-id_1.2"}]
    assert re.fullmatch(r"my-id_1\.2 GET /ask 204 0\.\d\d s", lines[0]) and len(lines) == 1


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "a\n"])
def test_an_id_of_another_form_is_replaced(given: str) -> None:
    sent, lines, scopes = pass_through(headers={**LOCAL, "x-request-id": given})
    made = scopes[0]["state"]["request_id"]
    assert re.fullmatch("[0-9a-f]{32}", made)
    assert dict(sent[0]["headers"])[b"x-request-id"] == made.encode() and lines[0].startswith(f"{made} GET")


def test_an_id_of_64_characters_and_a_state_are_kept() -> None:
    _, _, scopes = pass_through(headers={**LOCAL, "x-request-id": "x" * 64}, state={"other": 1})
    assert scopes[0]["state"] == {"other": 1, "request_id": "x" * 64}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8765", "[::1]"])
def test_names_of_this_machine_are_let_in(host: str) -> None:
    sent, _, _ = pass_through(headers={"host": host})
    assert sent[0]["status"] == 204


@pytest.mark.parametrize("host", ["", "evil.test", "127.0.0.1.evil.test:80", "[::2]:80"])
def test_another_host_is_refused_if_hosts_are_checked(host: str) -> None:
    sent, lines, scopes = pass_through(headers={**LOCAL, "host": host})
    assert (sent[0]["status"], scopes) == (421, [])
    assert json.loads(sent[1]["body"]) == describe_error(
        "host",
        "The Host header does not name this machine; without a token the service answers to 127.0.0.1.",
        "my-id_1.2",
    )
    assert dict(sent[0]["headers"]).items() >= {**HEADERS, b"x-request-id": b"my-id_1.2"}.items()
    assert " 421 " in lines[0]
    assert pass_through(checks_host=False, headers={"host": host})[0][0]["status"] == 204


def test_what_is_no_request_is_passed_on_untouched() -> None:
    _, lines, scopes = pass_through(type="lifespan")
    assert (lines, [each["type"] for each in scopes], "state" in scopes[0]) == ([], ["lifespan"], False)


def test_a_request_that_fails_is_reported_and_a_path_is_cut() -> None:
    lines: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("stop")

    async def nothing(*message: Message) -> Any:
        return None

    scope = {"type": "http", "method": "POST", "path": "/" + "x" * 200, "headers": [(b"x-request-id", b"i")]}
    with pytest.raises(RuntimeError, match="stop"):
        asyncio.run(Gate(application, False, lines.append)(scope, nothing, nothing))
    assert re.fullmatch(rf"i POST /{'x' * 99} 0 0\.\d\d s", lines[0])


def test_an_error_has_its_kind_its_sentence_and_the_id() -> None:
    assert describe_error("host", "Not here.", "id") == {
        "error": {"type": "host", "message": "Not here."},
        "request_id": "id",
    }


@pytest.mark.parametrize("given", ["x", "AZaz09._-", "x" * 64])
def test_the_seconds_of_a_request_are_those_until_its_end(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 101.256])
    monkeypatch.setattr(gate, "time", SimpleNamespace(perf_counter=lambda: next(times)))
    _, lines, _ = pass_through(headers={"host": "localhost", "x-request-id": given})
    assert lines == [f"{given} GET /ask 204 1.26 s"]


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_what_is_no_request_needs_no_host(kind: str) -> None:
    sent, lines, scopes = pass_through(type=kind)
    assert sent[0] == {"type": "http.response.start", "status": 204, "headers": [(b"cache-control", b"public")]}
    assert (lines, len(scopes)) == ([], 1)


@pytest.mark.parametrize("host", ["::1", "localhost.", "127.0.0.1@evil.test", "user@localhost", "[localhost.evil]"])
def test_a_host_is_compared_as_a_whole(host: str) -> None:
    sent, _, _ = pass_through(headers={"host": host})
    assert sent[0]["status"] == 421
