"""A real Chromium behind the real server, as `make browser` starts it, on a website of this machine.

The picture lies in pytest's folder of the test; with BROWSER_PICTURES=docs/images it replaces the one there.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.tools.browser.session import ALLOWED, BrowserSession, build_browser_tools, open_browser
from mas.tools.http.url_policy import check_public
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings
from tests.patience import PATIENCE_SECONDS
from tests.servers.playwright_mcp import BrowserServer, running_browser, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

STYLE = "<style>body{font:16px sans-serif;margin:2em}td,th{border:1px solid #999;padding:.3em 1em}</style>"
TABLE = (
    "<table><tr><th>Town</th><th>People</th></tr><tr><td>Ostia</td><td>83,000</td></tr>"
    "<tr><td>Veii</td><td>1,200</td></tr></table>"
)
PAGES = {
    "/": f"<title>Towns</title>{STYLE}<h1>Towns of Latium</h1><p><a href='/table'>All towns</a></p>"
    "<form action='/found'><input name='q' aria-label='Search'><button>Find</button></form>",
    "/table": f"<title>Table</title>{STYLE}<h1>All towns</h1>{TABLE}",
    "/found": "<title>Found</title><h1>Two towns found</h1>",
}


@dataclass
class Site:
    """A website on loopback, which counts what it is asked for."""

    pages: dict[str, str] = field(default_factory=lambda: dict(PAGES))
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        self.asked.append(path)
        target = self.redirects.get(path)
        request.send_response(302 if target else 200 if path in self.pages or path == "/cookie" else 404)
        if target:
            request.send_header("Location", target)
        if query := urlsplit(request.path).query:
            request.send_header("Set-Cookie", f"name={query}")
        request.send_header("Content-Type", "text/html; charset=utf-8")
        request.end_headers()
        cookie = f"<p>You are {request.headers.get('Cookie', 'unknown')}.</p>"
        request.wfile.write(self.pages.get(path, cookie).encode())


def running(site: Site) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    yield from running(Site())


@pytest.fixture(scope="module")
def inside() -> Iterator[Site]:
    """What stands for a machine in the network of whoever runs this: nothing may ever reach it."""
    yield from running(Site({"/secret": "<title>Secret</title><h1>Secret</h1>"}))


@pytest.fixture(scope="module")
def server(site: Site) -> Iterator[BrowserServer]:
    with running_browser("--allow-private-hosts", f"127.0.0.1:{site.port}") as running:
        yield running


@pytest.fixture
def session(server: BrowserServer, site: Site) -> Iterator[BrowserSession]:
    with session_of(server, site) as session:
        yield session


@contextmanager
def session_of(server: BrowserServer, site: Site) -> Iterator[BrowserSession]:
    allowed = WebSettings(allow_private_hosts=[f"127.0.0.1:{site.port}"], more_blocked_sites=["/found"])

    async def check(url: str) -> str:
        return (await check_public(url, allowed))[0]

    session = open_browser(server.url, check, pytest.fail)
    assert session is not None
    yield session


@pytest.fixture
def question() -> Iterator[SampleContext]:
    question = SampleContext(SampleKey("q"))
    yield question
    question.close()


def acted(session: BrowserSession, question: SampleContext, tool: str, **arguments: Any) -> str:
    """By way of the tool, as an agent has it."""
    with use_context(question):
        seen: str = run_blocking(build_browser_tools(session)[tool].acall(**arguments))
    return seen


def test_the_server_still_has_the_tools_that_agents_get(session: BrowserSession) -> None:
    assert tuple(build_browser_tools(session)) == ALLOWED


def test_a_page_is_opened_clicked_through_and_its_table_read(
    session: BrowserSession, question: SampleContext, site: Site
) -> None:
    seen = acted(session, question, "browser_navigate", url=site.url)
    assert seen.startswith(f"{site.url}/ 'Towns' (browser, ")
    link = next(line for line in seen.splitlines() if 'link "All towns"' in line)
    target = link.partition("[ref=")[2].partition("]")[0]
    table = acted(session, question, "browser_click", target=target, doubleClick=None)
    assert table.startswith(f"{site.url}/table 'Table' ")
    assert 'cell "Ostia"' in table and 'cell "83,000"' in table
    found = acted(session, question, "browser_find", text="veii")
    assert 'cell "1,200"' in found and "heading" not in found
    assert "Towns of Latium" in acted(session, question, "browser_navigate_back")


def test_a_question_has_none_of_the_cookies_of_another(
    session: BrowserSession, question: SampleContext, site: Site
) -> None:
    acted(session, question, "browser_navigate", url=f"{site.url}/cookie?ann")
    assert "You are name=ann." in acted(session, question, "browser_navigate", url=f"{site.url}/cookie")
    other = SampleContext(SampleKey("other"))
    assert "You are unknown." in acted(session, other, "browser_navigate", url=f"{site.url}/cookie")
    other.close()


def test_no_way_leads_inside(session: BrowserSession, question: SampleContext, site: Site, inside: Site) -> None:
    """Not an address, a redirect, a link, a frame, a picture or a script: the machine inside is asked nothing."""
    secret = f"{inside.url}/secret"
    site.redirects["/away"] = secret
    site.pages["/parts"] = (
        f"<h1>Parts</h1><iframe src='{secret}'></iframe><img src='{secret}'><a href='{secret}'>go</a>"
        f"<script>fetch('{secret}', {{mode: 'no-cors'}}); new WebSocket('{secret.replace('http', 'ws')}')</script>"
    )
    for tool, arguments in (
        ("browser_navigate", {"url": secret}),
        ("browser_navigate", {"url": f"{site.url}/away"}),
        ("browser_navigate", {"url": f"{site.url}/parts"}),
        ("browser_click", {"target": "text=go"}),
        ("browser_tabs", {"action": "new", "url": secret}),
        ("browser_navigate", {"url": "file:///etc/passwd"}),
    ):
        try:
            seen = acted(session, question, tool, **arguments)
        except ToolError as error:
            seen = str(error)
        assert "root:" not in seen and 'heading "Secret"' not in seen
    assert "/parts" in site.asked and "/away" in site.asked
    assert inside.asked == []


UDP = """<title>Waiting</title><h1>Datagrams</h1><script>
const peer = new RTCPeerConnection({iceServers: [SERVERS].map(urls => ({urls}))});
peer.createDataChannel("x");
const tried = () => setTimeout(() => document.title = "Tried", 2000);  // the first datagram leaves within milliseconds
peer.createOffer().then(offer => peer.setLocalDescription(offer)).then(tried);
</script>"""


def test_no_datagram_leaves_the_browser(question: SampleContext, site: Site) -> None:
    """WebRTC asks a STUN server by UDP, which no HTTP proxy carries."""
    with (
        running_browser("--allow-private-hosts", f"127.0.0.1:{site.port}") as server,
        session_of(server, site) as session,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener,
    ):
        listener.bind(("0.0.0.0", 0))
        listener.settimeout(0.5)
        addresses = {"127.0.0.1", find_own_address()}
        servers = [f"'stun:{address}:{listener.getsockname()[1]}'" for address in sorted(addresses)]
        site.pages["/udp"] = UDP.replace("SERVERS", ", ".join(servers))
        seen = acted(session, question, "browser_navigate", url=f"{site.url}/udp")
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            with suppress(TimeoutError):
                pytest.fail(f"a datagram came from {listener.recvfrom(100)[1]}")
            if "'Tried'" in seen:
                break
            seen = acted(session, question, "browser_snapshot")
        assert "'Tried'" in seen


def find_own_address() -> str:
    """Return this machine's address towards the outside; loopback if it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
