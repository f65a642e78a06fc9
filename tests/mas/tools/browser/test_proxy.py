"""The browser's way out: what is public or expressly allowed passes through unchanged, and nothing else."""

import asyncio
import ipaddress
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mas.tools.browser.proxy import get_port, start_proxy
from mas.tools.http import url_policy as guard
from tests.patience import PATIENCE_SECONDS


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


NOT_ALLOWED = 2


def request(host: str, port: int) -> bytes:
    """A greeting, and a request to connect, as browsers send them."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
        target = (b"\x01" if address.version == 4 else b"\x04") + address.packed
    except ValueError:
        target = b"\x03" + bytes([len(host)]) + host.encode()
    return b"\x05\x01\x00" + b"\x05\x01\x00" + target + port.to_bytes(2)


def through_the_proxy(host: str, port: int, data: bytes = b"", allowed: tuple[str, ...] = ()) -> tuple[int, str]:
    """The proxy's status, and the whole answer of the server to the data."""

    async def asked() -> tuple[int, str]:
        async with await start_proxy(allowed) as started:
            reader, writer = await asyncio.open_connection("127.0.0.1", get_port(started))
            writer.write(request(host, port) + data)
            assert await reader.readexactly(2) == b"\x05\x00"
            answer = await reader.readexactly(10)
            said = b"".join([piece async for piece in reader])
            writer.close()
            await writer.wait_closed()
            return answer[1], said.decode()

    return asyncio.run(asyncio.wait_for(asked(), PATIENCE_SECONDS))


def test_a_connection_carries_bytes_both_ways(echo: int) -> None:
    head = "Host: x\r\nConnection: close\r\nContent-Length: 4\r\n"
    sent = f"POST /inside HTTP/1.1\r\n{head}\r\nbody".encode()
    status, said = through_the_proxy("127.0.0.1", echo, sent, allowed=(f"127.0.0.1:{echo}",))
    assert status == 0
    assert said.startswith("HTTP/1.1 200 ") and "POST /inside " in said and said.endswith("body")


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
    assert through_the_proxy(host, echo) == (NOT_ALLOWED, "")


def test_a_name_is_judged_by_the_address_that_it_leads_to(echo: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    monkeypatch.setattr(guard, "resolve_host", found)
    assert through_the_proxy("rebound.example.org", echo) == (NOT_ALLOWED, "")


def test_what_is_allowed_at_one_port_is_not_at_another(echo: int) -> None:
    assert through_the_proxy("127.0.0.1", echo, allowed=("127.0.0.1:1",)) == (NOT_ALLOWED, "")
