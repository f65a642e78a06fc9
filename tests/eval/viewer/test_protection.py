"""Requests that the viewer refuses, each of them otherwise like one that it answers."""

import asyncio
from typing import Any

import pytest

from eval.viewer.protection import Access, Guard

ACCESS = Access(8770, "the-token", "the-write-token")
READ = {"host": "127.0.0.1:8770", "cookie": "viewer_8770=the-token"}
WRITE = {
    **READ,
    "origin": "http://127.0.0.1:8770",
    "content-type": "application/json; charset=utf-8",
    "x-viewer-token": "the-write-token",
}


async def page(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-security-policy", b"default-src 'self'")] if scope["path"] == "/own" else []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"page"})


def request(
    headers: Any, method: str = "GET", path: str = "/", query: bytes = b""
) -> tuple[int, dict[str, str], list[bytes]]:
    """Return status, headers and all values of `set-cookie`."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    raw = [(name.encode(), value.encode()) for name, value in pairs]
    scope = {"type": "http", "method": method, "path": path, "headers": raw, "query_string": query}
    asyncio.run(Guard(page, ACCESS)(scope, receive, send))
    given = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], given, [value for name, value in sent[0]["headers"] if name == b"set-cookie"]


def test_a_page_is_shown_to_who_has_the_cookie() -> None:
    for host in ("127.0.0.1:8770", "localhost:8770", "LocalHost:8770"):
        assert request({**READ, "host": host})[0] == 200
    status, headers, _ = request(READ)
    assert status == 200 and headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["cache-control"] == "no-store" and headers["x-frame-options"] == "DENY"
    assert request(READ, path="/own")[1]["content-security-policy"] == "default-src 'self'"


@pytest.mark.parametrize("cookie", ["", "viewer_8770=", "viewer_8770=another", "viewer_8771=the-token", "the-token"])
def test_nobody_else_sees_anything(cookie: str) -> None:
    status, headers, _ = request({**READ, "cookie": cookie})
    assert status == 401 and headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8770", "127.0.0.1", "127.0.0.1:8771", "localhost", ""])
def test_a_host_name_of_others_is_refused(host: str) -> None:
    assert request({**READ, "host": host})[0] == 421


def test_two_hosts_or_none_are_refused() -> None:
    assert request([("host", READ["host"]), ("host", READ["host"]), ("cookie", READ["cookie"])])[0] == 421
    assert request({"cookie": READ["cookie"]})[0] == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://127.0.0.1:8770"}, 200),
        ({"origin": "http://localhost:8770"}, 403),
        ({"origin": "https://127.0.0.1:8770"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_requests_from_other_pages_are_refused(headers: dict[str, str], status: int) -> None:
    assert request({**READ, **headers})[0] == status
    assert request({**READ, **headers}, method="HEAD")[0] == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_our_own_pages_write(method: str) -> None:
    assert request(WRITE, method)[0] == 200
    for name, value in (
        ("origin", None),
        ("origin", "http://evil.example"),
        ("content-type", None),
        ("content-type", "text/plain"),
        ("content-type", "text/plain; application/json"),
        ("x-viewer-token", None),
        ("x-viewer-token", "the-token"),
        ("sec-fetch-site", "cross-site"),
    ):
        headers = {key: each for key, each in {**WRITE, name: value}.items() if each is not None}
        assert request(headers, method)[0] == 403, (name, value)
    assert request({key: each for key, each in WRITE.items() if key != "cookie"}, method)[0] == 401


def test_the_printed_address_gives_the_cookie_also_from_a_link_elsewhere() -> None:
    assert ACCESS.url == "http://127.0.0.1:8770/open?token=the-token"
    for site in ("none", "cross-site"):
        headers = {"host": "127.0.0.1:8770", "sec-fetch-site": site}
        status, found, [cookie] = request(headers, path="/open", query=b"token=the-token")
        assert (status, found["location"]) == (303, "/")
        parts = cookie.decode().lower().split("; ")
        assert parts[0] == "viewer_8770=the-token" and {"httponly", "samesite=strict", "path=/"} <= set(parts)


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", "/open", b"token=another"),
        ("GET", "/open", b""),
        ("GET", "/open", b"token=the-token&more"),
        ("GET", "/other", b"token=the-token"),
        ("HEAD", "/open", b"token=the-token"),
    ],
)
def test_any_other_address_gives_none(method: str, path: str, query: bytes) -> None:
    status, _, cookies = request({"host": "127.0.0.1:8770"}, method, path, query)
    assert (status, cookies) == (401, [])


def test_each_start_has_secrets_of_its_own() -> None:
    first, second = Access.make(1), Access.make(1)
    assert len({first.token, first.write_token, second.token, second.write_token}) == 4
    assert first.cookie != Access.make(2).cookie


def test_what_is_no_request_is_passed_on() -> None:
    seen = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(Guard(application, ACCESS)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]


def answer(headers: dict[str, str], method: str = "GET", path: str = "/") -> tuple[int, str]:
    """Return status and text."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": raw}
    asyncio.run(Guard(page, ACCESS)(scope, None, send))  # type: ignore[arg-type]
    return sent[0]["status"], sent[1]["body"].decode()


def test_every_refusal_says_what_to_do() -> None:
    assert answer(READ) == (200, "page")
    assert answer({}) == (421, "This server answers to 127.0.0.1 and localhost only.\n")
    assert answer({**READ, "origin": "null"}) == (403, "Requests from pages of other origins are refused.\n")
    assert answer({**READ, "sec-fetch-site": "x"}) == (403, "Requests from pages of other sites are refused.\n")
    assert answer(READ, "POST") == (403, "Only the viewer's own pages may write; reload the page.\n")
    strangers = (401, "Open the address that python eval/view.py has printed.\n")
    assert answer({"host": READ["host"]}) == strangers
    assert answer({"host": READ["host"]}, path="/open") == strangers, "an address without a query"


def test_every_answer_has_all_headers_that_protect_it() -> None:
    whole = {
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }
    assert request(READ)[1] == whole
    refused = request({**READ, "host": "evil.example"})[1]
    assert {name: refused[name] for name in whole} == whole


def test_another_site_may_link_to_the_printed_address_and_do_nothing_else_with_it() -> None:
    foreign = {**READ, "sec-fetch-site": "cross-site"}
    assert request(foreign, path="/open", query=b"token=the-token")[0] == 303
    assert request(foreign, "HEAD", "/open", b"token=the-token")[0] == 403
    assert request({**WRITE, "sec-fetch-site": "cross-site"}, "POST", "/open", b"token=the-token")[0] == 403


def test_a_write_is_json_however_its_type_is_spelled_and_from_the_host_that_it_names() -> None:
    for spelled in ("application/json", "Application/JSON", " application/json ;charset=utf-8"):
        assert request({**WRITE, "content-type": spelled}, "POST")[0] == 200
    local = {**WRITE, "host": "LOCALHOST:8770", "origin": "http://localhost:8770"}
    assert request(local, "POST")[0] == 200
    assert request({**local, "host": "127.0.0.1:8770"}, "POST")[0] == 403
    assert ACCESS.hosts == ("127.0.0.1:8770", "localhost:8770") and ACCESS.cookie == "viewer_8770"


def test_secrets_are_long_and_belong_to_their_port() -> None:
    made = Access.make(8771)
    assert made.port == 8771 and len(made.token) == len(made.write_token) == 32  # 24 bytes in base 64
    assert made.url == f"http://127.0.0.1:8771/open?token={made.token}"
