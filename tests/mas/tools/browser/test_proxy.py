"""The browser's way out: what is public or expressly allowed passes through unchanged, and nothing else."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mas.tools.browser.proxy import get_port, start_proxy
from mas.tools.http import url_policy as guard


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
