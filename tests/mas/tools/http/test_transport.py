"""Requests on the wire: connections to checked addresses, certificates of the name, and replies within their size."""

import asyncio
import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mas.tools.http import client as http_client
from mas.tools.http import url_policy as guard
from mas.tools.http.client import GuardedTransport
from mas.tools.http.url_policy import NotPublicError
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings
from tests.patience import PATIENCE_SECONDS
from tests.servers.loopback import running
from tests.servers.website import Website

NAME = "pinned.example.org"


@pytest.fixture(scope="module")
def site() -> Iterator[Website]:
    with running(Website()) as server:
        yield server


def fetch(url: str, *allowed: str, max_bytes: int = 10_000) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = GuardedTransport(WebSettings(allow_private_hosts=[*allowed]), max_bytes)
        how = {"trust_env": False, "timeout": PATIENCE_SECONDS, "follow_redirects": True}
        async with httpx.AsyncClient(transport=transport, **how) as client:  # type: ignore[arg-type]
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
    response = fetch(url, NAME)
    assert f"asked for {NAME}:{site.server_port}" in response.text
    assert asked == [NAME]  # once: nothing can change between check and connection


def test_a_name_that_turns_inside_at_the_second_look_up_is_refused_at_the_redirect(
    site: Website, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = look_ups(monkeypatch, ["127.0.0.1"], ["127.0.0.1"])
    target = f"http://rebound.example.org:{site.server_port}/article"
    before = len(site.requests)
    with pytest.raises(NotPublicError, match=r"rebound\.example\.org"):
        fetch(f"http://{NAME}:{site.server_port}/to?url={target}", NAME)
    assert asked == [NAME, "rebound.example.org"]
    assert [each.path for each in site.requests[before:]] == ["/to"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/article", "http://[::ffff:127.0.0.1]:{port}/article"])
def test_without_permission_loopback_is_never_connected_to(site: Website, url: str) -> None:
    before = len(site.requests)
    with pytest.raises(NotPublicError):
        fetch(url.format(port=site.server_port))
    assert len(site.requests) == before


@pytest.mark.parametrize(
    "target",
    ["http://127.0.0.2:{port}/article", "file:///etc/passwd", "http://169.254.169.254/", "http://localhost:1/"],
)
def test_a_redirect_to_something_inside_is_refused(site: Website, target: str) -> None:
    with pytest.raises(NotPublicError):
        fetch(f"{site.base_url}/to?url={target.format(port=site.server_port)}", "127.0.0.1")


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
    monkeypatch.setattr(http_client, "make_tls_context", lambda: trusting)
    look_ups(monkeypatch, ["127.0.0.1"], ["127.0.0.1"])
    assert NAME in fetch(f"https://{NAME}:{server.server_port}/host", NAME).text
    with pytest.raises(httpx.ConnectError, match="certificate"):
        fetch(f"https://other.example.org:{server.server_port}/host", "other.example.org")


def test_a_certificate_that_nobody_knows_is_refused(certified: tuple[Website, ssl.SSLContext]) -> None:
    server, _ = certified
    with pytest.raises(httpx.ConnectError, match="certificate"):
        fetch(f"https://127.0.0.1:{server.server_port}/host", "127.0.0.1")


def test_all_members_of_a_packed_reply_are_read_and_what_follows_them_is_not(site: Website) -> None:
    assert fetch(f"{site.base_url}/members", "127.0.0.1").text == "first, second"
    with pytest.raises(ToolError, match="larger than 8 bytes"):
        fetch(f"{site.base_url}/members", "127.0.0.1", max_bytes=8)
