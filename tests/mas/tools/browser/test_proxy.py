"""The browser's way out: what is public or expressly allowed passes through unchanged, and nothing else."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import pytest

from mas.tools.browser import proxy
from mas.tools.browser.proxy import get_port, start_proxy
from mas.tools.http import url_policy as guard
from tests.mas.tools.browser.receiver import Receiver
from tests.servers.playwright_mcp import free_port


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        answer = f"{self.command} {self.path} {dict(self.headers)} {body.decode()}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def echo_server() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    with echo_server() as port:
        yield port


def through_the_proxy(*requests: str, allowed: tuple[str, ...] = ()) -> list[str]:
    """The whole answers to these requests, each on a connection of its own."""

    async def asked() -> list[str]:
        async with await start_proxy(allowed) as started:
            return [await answer(get_port(started), request) for request in requests]

    async def answer(port: int, request: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.encode())
        said = b"".join([piece async for piece in reader])
        writer.close()
        await writer.wait_closed()
        return said.decode()

    return asyncio.run(asyncio.wait_for(asked(), 20))


def test_a_request_in_the_clear_arrives_as_the_server_expects_it(echo: int) -> None:
    head = f"Host: 127.0.0.1:{echo}\r\nProxy-Connection: keep-alive\r\nX-Own: kept\r\n"
    [got, posted] = through_the_proxy(
        f"GET http://127.0.0.1:{echo}/a/b?c=d HTTP/1.1\r\n{head}\r\n",
        f"POST http://127.0.0.1:{echo} HTTP/1.1\r\n{head}Content-Length: 4\r\n\r\nbody",
        allowed=(f"127.0.0.1:{echo}",),
    )
    assert got.startswith("HTTP/1.1 200 ") and "GET /a/b?c=d " in got and "'X-Own': 'kept'" in got
    assert "Proxy-Connection" not in got and "'Connection': 'close'" in got
    assert "POST / " in posted and posted.endswith("body")


def test_a_tunnel_carries_bytes_both_ways(echo: int) -> None:
    opening = f"CONNECT 127.0.0.1:{echo} HTTP/1.1\r\nHost: 127.0.0.1:{echo}\r\n\r\n"
    [said] = through_the_proxy(
        f"{opening}GET /inside HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", allowed=(f"127.0.0.1:{echo}",)
    )
    assert said.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 ")
    assert "GET /inside " in said


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "169.254.169.254",
        "10.0.0.1",
        "0x7f.1",
        "2130706433",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "db",
    ],
)
def test_what_is_not_public_is_refused(echo: int, host: str) -> None:
    for said in through_the_proxy(
        f"GET http://{host}:{echo}/ HTTP/1.1\r\nHost: x\r\n\r\n", f"CONNECT {host}:{echo} HTTP/1.1\r\n\r\n"
    ):
        assert said.startswith("HTTP/1.1 403 Forbidden\r\n") and "This URL is refused" in said


def test_a_name_is_judged_by_the_address_that_it_leads_to(echo: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    monkeypatch.setattr(guard, "resolve_host", found)
    [said] = through_the_proxy(f"CONNECT rebound.example.org:{echo} HTTP/1.1\r\n\r\n")
    assert said.startswith("HTTP/1.1 403 ") and "leads to an address that is not public" in said


def test_what_is_allowed_at_one_port_is_not_at_another(echo: int) -> None:
    [said] = through_the_proxy(f"CONNECT 127.0.0.1:{echo} HTTP/1.1\r\n\r\n", allowed=("127.0.0.1:1",))
    assert said.startswith("HTTP/1.1 403 ")


def test_a_host_that_does_not_answer() -> None:
    port = free_port()
    [said] = through_the_proxy(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n", allowed=("127.0.0.1",))
    assert said.startswith("HTTP/1.1 502 ") and said.endswith(f"127.0.0.1 does not answer at port {port}.")


@pytest.mark.parametrize(
    "request_line",
    [
        "hello",
        "GET /path HTTP/1.1",
        "GET https://example.org/ HTTP/1.1",
        "CONNECT x:99999 HTTP/1.1",
        "GET http://[ HTTP/1.1",
    ],
)
def test_what_is_no_request_to_a_proxy(request_line: str) -> None:
    [said] = through_the_proxy(f"{request_line}\r\nHost: x\r\n\r\n")
    assert said.startswith("HTTP/1.1 400 ")


def test_a_head_without_end_is_cut_off() -> None:
    [said] = through_the_proxy("GET http://example.org/ HTTP/1.1\r\n" + "X-Long: " + "x" * 70_000 + "\r\n\r\n")
    assert said.startswith("HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        (b"Host: a\r\nAccept: x\r\n\r\n", b"Host: a\r\nAccept: x\r\nConnection: close\r\n\r\n"),
        (
            b"Host: a\r\nCONNECTION: keep-alive\r\nProxy-Connection: x\r\nproxy-authorization: y\r\n"
            b"Keep-Alive: 5\r\n\r\n",
            b"Host: a\r\nConnection: close\r\n\r\n",
        ),
        (b"\r\n\r\n", b"Connection: close\r\n\r\n"),
    ],
)
def test_a_request_ends_with_itself_and_takes_nothing_along_that_is_for_the_proxy(headers: bytes, sent: bytes) -> None:
    assert proxy._end_after_request(headers) == sent


def test_a_refusal_is_a_whole_answer_with_its_sentence() -> None:
    (answer,) = through_the_proxy("GET /relative HTTP/1.1\r\nHost: a\r\n\r\n")
    sentence = "This is no request to a proxy."
    assert answer == (
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
        f"Content-Length: {len(sentence)}\r\n\r\n{sentence}"
    )


def test_a_host_without_a_port_is_asked_at_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, tuple[str, ...]]] = []

    async def find(host: str, port: int, allowed: tuple[str, ...]) -> list[str]:
        asked.append((host, port, allowed))
        return []

    monkeypatch.setattr(proxy, "resolve_public_host", find)
    answers = through_the_proxy(
        "CONNECT a.example HTTP/1.1\r\n\r\n",
        "CONNECT a.example:8443 HTTP/1.1\r\n\r\n",
        "GET http://b.example/x HTTP/1.1\r\n\r\n",
        "GET http://[2606:4700::1111]:8080/ HTTP/1.1\r\n\r\n",
        allowed=("c",),
    )
    assert asked == [
        ("a.example", 443, ("c",)), ("a.example", 8443, ("c",)), ("b.example", 80, ("c",)),
        ("2606:4700::1111", 8080, ("c",)),
    ]  # fmt: skip
    assert [answer.partition("\r\n\r\n")[2] for answer in answers] == [
        f"{host} does not answer at port {port}." for host, port, _ in asked
    ]
    assert all(answer.startswith("HTTP/1.1 502 Bad Gateway\r\n") for answer in answers)


def test_addresses_are_tried_one_after_the_other(echo: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(host: str, port: int, allowed: tuple[str, ...]) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    monkeypatch.setattr(proxy, "resolve_public_host", find)
    (answer,) = through_the_proxy(f"GET http://a.example:{echo}/a/b?c=/d HTTP/1.1\r\nHost: a.example\r\n\r\n")
    assert "GET /a/b?c=/d {'Host': 'a.example', 'Connection': 'close'} " in answer
    (top,) = through_the_proxy(f"GET http://a.example:{echo} HTTP/1.1\r\nHost: a.example\r\n\r\n")
    assert "GET / {" in top


def sender(said: bytes, ended: bool = True) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(said)
    if ended:
        reader.feed_eof()
    return reader


@pytest.mark.parametrize(
    ("receiver", "got"),
    [
        (Receiver(), [b"ab", b"c", "end"]),
        (Receiver(takes_an_end=False), [b"ab", b"c"]),
        (Receiver(1), [b"ab", b"c"]),
        (Receiver(0), [b"ab"]),
    ],
)
def test_bytes_are_passed_on_in_pieces_with_their_end_until_the_receiver_is_gone(
    receiver: Receiver, got: list[bytes | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "PIECE_BYTES", 2)

    async def copy() -> None:
        await proxy._copy(sender(b"abc"), cast(asyncio.StreamWriter, receiver))

    asyncio.run(copy())
    assert receiver.got == got


def test_a_connection_lasts_until_the_server_has_said_everything() -> None:
    async def copy() -> tuple[Receiver, int]:
        browser, server = Receiver(), Receiver()
        await proxy._copy_both_ways(
            (sender(b"request", ended=False), cast(asyncio.StreamWriter, browser)),
            (sender(b"answer"), cast(asyncio.StreamWriter, server)),
        )
        return browser, len(asyncio.all_tasks())

    browser, tasks = asyncio.run(asyncio.wait_for(copy(), 10))
    assert browser.got == [b"answer", "end"], "a browser that says no more is not waited for"
    assert tasks == 2, "nothing goes on behind it: the test and its limit of time alone"
