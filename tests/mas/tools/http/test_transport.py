"""Requests on the wire: connections to checked addresses, certificates of the name, and replies within their size."""

import asyncio
import contextlib
import datetime
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpcore
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from mas.tools.http import transport
from mas.tools.http import url_policy as guard
from mas.tools.http.blocked_sites import BlockedPageError
from mas.tools.http.transport import GuardedTransport, Rules, TooLargeError, Unpacker
from mas.tools.http.url_policy import NotPublicError
from mas.tools.results import ToolError
from tests.servers.loopback import running
from tests.servers.website import Website

NAME = "pinned.example.org"


@pytest.fixture(scope="module")
def site() -> Iterator[Website]:
    with running(Website()) as server:
        yield server


def fetch(url: str, rules: Rules, follow: bool = True) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=GuardedTransport(rules), trust_env=False, timeout=5, follow_redirects=follow
        ) as client:
            return await client.get(url, headers={"Accept-Encoding": "gzip, deflate"})

    return asyncio.run(ask())


def look_ups(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Each look-up gets the next answer; the hosts that were looked up."""
    left, asked = list(answers), []

    async def resolved(host: str, port: int) -> list[str]:
        asked.append(host)
        return left.pop(0)

    monkeypatch.setattr(guard, "resolve_host", resolved)
    return asked


def test_the_connection_goes_to_the_address_that_was_checked_under_the_name_of_the_host(
    site: Website, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = look_ups(monkeypatch, ["127.0.0.1"])
    url = f"http://{NAME}:{site.server_port}/host"
    response = fetch(url, Rules(10_000, (NAME,)))
    assert f"asked for {NAME}:{site.server_port}" in response.text
    assert asked == [NAME]  # once: nothing can change between check and connection


def test_a_name_that_turns_inside_at_the_second_look_up_is_refused_at_the_redirect(
    site: Website, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = look_ups(monkeypatch, ["127.0.0.1"], ["127.0.0.1"])
    target = f"http://rebound.example.org:{site.server_port}/article"
    before = len(site.requests)
    with pytest.raises(NotPublicError, match=r"rebound\.example\.org"):
        fetch(f"http://{NAME}:{site.server_port}/to?url={target}", Rules(10_000, (NAME,)))
    assert asked == [NAME, "rebound.example.org"]
    assert [each.path for each in site.requests[before:]] == ["/to"]


def test_an_address_that_does_not_answer_gives_way_to_the_next(site: Website, monkeypatch: pytest.MonkeyPatch) -> None:
    look_ups(monkeypatch, ["127.0.0.9", "127.0.0.1"])
    assert fetch(f"http://{NAME}:{site.server_port}/host", Rules(10_000, (NAME,))).status_code == 200


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/article", "http://[::ffff:127.0.0.1]:{port}/article"])
def test_without_permission_loopback_is_never_connected_to(site: Website, url: str) -> None:
    before = len(site.requests)
    with pytest.raises(NotPublicError):
        fetch(url.format(port=site.server_port), Rules(10_000))
    assert len(site.requests) == before


@pytest.mark.parametrize(
    "target",
    ["http://127.0.0.2:{port}/article", "file:///etc/passwd", "http://169.254.169.254/", "http://localhost:1/"],
)
def test_a_redirect_to_something_inside_is_refused(site: Website, target: str) -> None:
    rules = Rules(10_000, ("127.0.0.1",))
    with pytest.raises(NotPublicError):
        fetch(f"{site.base_url}/to?url={target.format(port=site.server_port)}", rules)


def test_what_is_unpacked_is_counted_not_what_is_sent(site: Website) -> None:
    for path in ("/bomb", "/endless"):
        with pytest.raises(TooLargeError, match="larger than 100000 bytes"):
            fetch(site.base_url + path, Rules(100_000, ("127.0.0.1",)))


@pytest.mark.parametrize("path", ["/gzip", "/deflate", "/raw-deflate"])
def test_the_usual_compressions_are_undone(site: Website, path: str) -> None:
    assert "Ruth Odell" in fetch(site.base_url + path, Rules(100_000, ("127.0.0.1",))).text


@pytest.mark.parametrize("path", ["/brotli", "/twice-packed", "/bad-gzip"])
def test_other_and_damaged_compressions_are_a_sentence(site: Website, path: str) -> None:
    with pytest.raises(ToolError, match="The reply is compressed in a way"):
        fetch(site.base_url + path, Rules(100_000, ("127.0.0.1",)))


def test_no_piece_is_larger_than_a_piece() -> None:
    sizes = [len(piece) for piece in Unpacker()(gzip.compress(bytes(10_000_000)))]
    assert sum(sizes) == 10_000_000
    assert max(sizes) <= transport.PIECE_BYTES


def _chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@settings(deadline=None)
@given(st.binary(max_size=3_000), st.integers(1, 500), st.sampled_from(["gzip", "zlib", "bare", "members"]))
def test_any_content_in_any_chunks_comes_out_whole(content: bytes, size: int, how: str) -> None:
    packed = {
        "gzip": gzip.compress(content),
        "zlib": zlib.compress(content),
        "bare": zlib.compress(content)[2:-4],
        "members": gzip.compress(content[:7]) + gzip.compress(content[7:]),
    }[how]
    unpack = Unpacker()
    assert b"".join(piece for chunk in _chunks(packed, size) for piece in unpack(chunk)) == content


@settings(deadline=None)
@given(st.binary(max_size=500), st.integers(1, 50))
def test_garbage_is_a_sentence_or_nothing_but_never_another_error(data: bytes, size: int) -> None:
    unpack = Unpacker()
    with contextlib.suppress(ToolError):
        assert sum(len(piece) for chunk in _chunks(data, size) for piece in unpack(chunk)) < 10**8


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Website, ssl.SSLContext]]:
    """An https server with a certificate for NAME, and a context that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file: Path = tmp_path_factory.mktemp("tls") / "server.pem"
    text = serialization.Encoding.PEM
    private = key.private_bytes(text, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(private + certificate.public_bytes(text))
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(file)
    server = Website()
    server.socket = server_side.wrap_socket(server.socket, server_side=True)
    with running(server):
        yield server, ssl.create_default_context(cafile=str(file))


def test_the_certificate_is_checked_against_the_name_not_the_address(
    certified: tuple[Website, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, trusting = certified
    monkeypatch.setattr(transport, "make_tls_context", lambda: trusting)
    rules = Rules(10_000, (NAME, "other.example.org"))
    look_ups(monkeypatch, ["127.0.0.1"], ["127.0.0.1"])
    assert NAME in fetch(f"https://{NAME}:{server.server_port}/host", rules).text
    with pytest.raises(httpx.ConnectError, match="certificate"):
        fetch(f"https://other.example.org:{server.server_port}/host", rules)


def test_a_certificate_that_nobody_knows_is_refused(certified: tuple[Website, ssl.SSLContext]) -> None:
    server, _ = certified
    with pytest.raises(httpx.ConnectError, match="certificate"):
        fetch(f"https://127.0.0.1:{server.server_port}/host", Rules(10_000, ("127.0.0.1",)))


@pytest.mark.parametrize("step", [1, 2, 7, 10_000])
def test_members_follow_one_another_and_padding_ends_them(step: int) -> None:
    for first in (gzip.compress(b"one "), zlib.compress(b"one "), zlib.compress(b"one ")[2:-4]):
        packed = first + gzip.compress(b"two") + b"\0\0\0 padding"
        unpack, found = Unpacker(), b""
        for start in range(0, len(packed), step):
            for piece in unpack(packed[start : start + step]):
                found += piece
        assert found == b"one two"


@pytest.mark.parametrize(
    ("named", "encoding"),
    [
        ("", ""),
        ("Identity ", ""),
        ("gzip", "gzip"),
        (" X-GZIP", "x-gzip"),
        ("deflate", "deflate"),
        ("br", None),
        ("gzip, gzip", None),
    ],
)
def test_only_the_compressions_that_were_asked_for_are_undone(named: str, encoding: str | None) -> None:
    response = httpx.Response(200, headers={"content-encoding": named} if named else {}, stream=httpx.ByteStream(b""))
    if encoding is not None:
        assert transport._encoding(response) == encoding
        return
    with pytest.raises(ToolError, match="compressed in a way that was not asked for"):
        transport._encoding(response)


def test_a_reply_may_have_as_many_bytes_as_the_limit() -> None:
    async def read(most: int) -> bytes:
        capped = transport._Capped(httpx.ByteStream(gzip.compress(b"x" * 100)), "gzip", most)
        plain = transport._Capped(httpx.ByteStream(b"x" * 100), "", most)
        assert b"".join([piece async for piece in plain]) == b"x" * 100
        return b"".join([piece async for piece in capped])

    assert asyncio.run(read(100)) == b"x" * 100
    with pytest.raises(TooLargeError, match=r"^The reply is larger than 99 bytes; try a smaller page or file\.$"):
        asyncio.run(read(99))


class Recorder(httpcore.AsyncNetworkBackend):
    """Network of which some addresses do not answer."""

    def __init__(self, failures: dict[str, Exception]) -> None:
        self.failures = failures
        self.asked: list[tuple[object, ...]] = []

    async def connect_tcp(self, *given: Any) -> httpcore.AsyncNetworkStream:  # type: ignore[override]
        self.asked.append(given)
        if given[0] in self.failures:
            raise self.failures[given[0]]
        return httpcore.AsyncMockStream([])

    async def sleep(self, seconds: float) -> None:
        self.asked.append((seconds,))


def connect(failures: dict[str, Exception], addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> Recorder:
    look_ups(monkeypatch, addresses)
    backend, recorder = transport.PinnedBackend((NAME,)), Recorder(failures)
    monkeypatch.setattr(backend, "_backend", recorder)

    async def run() -> None:
        await backend.sleep(2.5)
        await backend.connect_tcp(NAME, 443, 7.0, "192.0.2.9", [(1, 2, 3)])

    asyncio.run(run())
    return recorder


def test_addresses_are_tried_in_their_order_until_one_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = {"192.0.2.1": httpcore.ConnectError("refused"), "192.0.2.2": httpcore.ConnectTimeout("silent")}
    recorder = connect(failures, ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"], monkeypatch)
    rest = (443, 7.0, "192.0.2.9", [(1, 2, 3)])
    assert recorder.asked == [(2.5,), *((f"192.0.2.{number}", *rest) for number in (1, 2, 3))]


def test_where_no_address_answers_the_last_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = {"192.0.2.1": httpcore.ConnectError("refused"), "192.0.2.2": httpcore.ConnectTimeout("silent")}
    with pytest.raises(httpcore.ConnectTimeout, match="silent"):
        connect(failures, ["192.0.2.1", "192.0.2.2"], monkeypatch)
    with pytest.raises(httpcore.ReadError, match="other"):
        connect({"192.0.2.1": httpcore.ReadError("other")}, ["192.0.2.1", "192.0.2.2"], monkeypatch)


def answer_with(response: httpx.Response, monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(self: object, request: httpx.Request) -> httpx.Response:
        return response

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle)


class Body(httpx.AsyncByteStream):
    """Body of a reply that knows whether it was closed."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks, self.closed = chunks, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk

    async def aclose(self) -> None:
        self.closed += 1


def test_an_unpacked_reply_has_its_headers_but_those_of_its_packed_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    body = Body(gzip.compress(b"Rome"))
    headers = [("Content-Encoding", "gzip"), ("Content-Length", "24"), ("Transfer-Encoding", "chunked")]
    kept = [("Content-Type", "text/plain"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
    answer_with(
        httpx.Response(206, headers=[*headers, *kept], stream=body, extensions={"http_version": b"HTTP/1.1"}),
        monkeypatch,
    )

    async def ask() -> httpx.Response:
        response = await GuardedTransport(Rules(4)).handle_async_request(httpx.Request("GET", "http://1.1.1.1/"))
        assert await response.aread() == b"Rome"
        return response

    response = asyncio.run(ask())
    assert (response.status_code, response.extensions["http_version"]) == (206, b"HTTP/1.1")
    assert [(name.decode(), value.decode()) for name, value in response.headers.raw] == kept
    assert body.closed >= 1


def test_a_reply_in_another_compression_is_closed_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    body = Body(b"packed")
    answer_with(httpx.Response(200, headers={"Content-Encoding": "br"}, stream=body), monkeypatch)
    with pytest.raises(ToolError) as refused:
        asyncio.run(GuardedTransport(Rules(100)).handle_async_request(httpx.Request("GET", "http://1.1.1.1/")))
    assert str(refused.value) == "The reply is compressed in a way that was not asked for; try another page."
    assert body.closed == 1


def test_a_blocked_or_private_address_is_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(self: object, request: httpx.Request) -> httpx.Response:
        raise AssertionError("sent")

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle)
    guarded = GuardedTransport(Rules(100, (), ("example.org/answers",)))
    for url, refusal in (("http://example.org/answers/1", BlockedPageError), ("ftp://example.org/", NotPublicError)):
        with pytest.raises(refusal):
            asyncio.run(guarded.handle_async_request(httpx.Request("GET", url)))


def test_a_stream_that_does_not_unpack_says_so() -> None:
    with pytest.raises(ToolError) as refused:
        list(Unpacker()(b"\x1f\x8bno gzip at all"))
    assert str(refused.value) == "The reply is compressed in a way that cannot be read; try another page."
