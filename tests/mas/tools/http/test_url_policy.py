"""The URL guard: what is refused before anything is sent, and what is let through as it is written down."""

import asyncio
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mas.tools.http import url_policy as guard
from mas.tools.http.url_policy import BlockedPageError, NotPublicError, check_public, normalize_url
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings

HOSTILE = [
    # not the web
    *("file:///etc/passwd", "ftp://example.org/", "gopher://127.0.0.1:6379/_FLUSHALL", "javascript:alert(1)"),
    *("data:text/html,x", "about:blank", "chrome://settings", "view-source:http://example.org", "ws://example.org"),
    *("unix:///var/run/docker.sock", "//example.org/", "example.org", "", " ", "http:", "http://"),
    *("http:///etc/passwd", "http:example.org", "http:/127.0.0.1/"),
    # this machine, under every name
    *("http://localhost/", "http://LOCALHOST:8080/", "http://localhost./", "http://sub.localhost/"),
    *("http://127.0.0.1/", "http://127.0.0.1./", "http://127.1/", "http://127.255.255.254/", "http://2130706433/"),
    *("http://0x7f000001/", "http://0x7F.0.0.1/", "http://0177.0.0.1/", "http://017700000001/", "http://0x7f.1/"),
    *("http://0/", "http://0.0.0.0/", "http://0x/", "http://[::1]/", "http://[::]/", "http://[0:0:0:0:0:0:0:1]:80/"),
    *("http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::127.0.0.1]/"),
    *("http://[64:ff9b::127.0.0.1]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::808:808]/"),
    *("http://[2002:7f00:1::]/", "http://[2002:a9fe:a9fe::1]/", "http://[2001:0:7f00:1::]/"),
    "http://[::ffff:0:127.0.0.1]/",
    "http://\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT TWO}\N{FULLWIDTH DIGIT SEVEN}.0.0.1/",
    "http://127\N{IDEOGRAPHIC FULL STOP}0\N{IDEOGRAPHIC FULL STOP}0\N{IDEOGRAPHIC FULL STOP}1/",
    *("http://\N{CIRCLED DIGIT ONE}27.0.0.1/", "http://\N{CIRCLED LATIN SMALL LETTER L}ocalhost/"),
    # inside a network or a cloud
    *("http://10.0.0.1/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.1.1/"),
    *("http://169.254.169.254/latest/meta-data/", "http://0xA9FEA9FE/", "http://2852039166/"),
    *("http://100.100.100.200/", "http://168.63.129.16/", "http://192.0.0.192/", "http://198.18.0.1/"),
    *("http://192.88.99.1/", "http://224.0.0.1/", "http://240.0.0.1/", "http://255.255.255.255/"),
    *("http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[fc00::1]/"),
    *("http://[fd00:ec2::254]/", "http://[fec0::1]/", "http://[ff02::1]/", "http://[2001:db8::1]/"),
    *("http://[3fff::1]/", "http://[100::1]/", "http://100.64.0.1/", "http://192.0.2.1/", "http://203.0.113.9/"),
    *("http://[2002:808:808::1]/", "http://[2001::1]/", "http://[5f00::1]/", "http://[4000::1]/"),
    *("http://metadata.google.internal/", "http://printer.local/", "http://router.lan/", "http://wiki/"),
    *("http://kubernetes.default.svc.cluster.local/", "http://box.home.arpa/", "http://something.onion/"),
    # told differently to different readers
    *("http://example.org@127.0.0.1/", "http://user:password@example.org/", "http://@example.org/"),
    *("http://example.org\\@127.0.0.1/", "http:\\\\127.0.0.1\\", "http://example.org\t.evil.test/"),
    *("http://exam\nple.org/", "http://example.org\r\nHost: 127.0.0.1/", "http://example.org\x00.test/"),
    *("http://ex%61mple.org/", "http://127%2e0.0.1/", "http://exa mple.org/", "http://exa<mple.org/"),
    *("http://a..example.org/", "http://.example.org/", "http://-/", "http://[::1/", "http://::1/"),
    *("http://[127.0.0.1]/", "http://[v1.abc]/", "http://1.2.3.4.5/", "http://256.256.256.256/", "http://08.8.8.8/"),
    *("http://\ud800.org/", "http://xn--.org\N{ZERO WIDTH JOINER}/", f"http://{'a' * 64}.org/"),
    *(f"http://{'a.' * 127}org/", f"http://example.org/{'a' * 5_000}"),
    # not the port of a web server
    *("http://example.org:0/", "http://example.org:22/", "http://example.org:25/", "http://example.org:65536/"),
    *("http://example.org:-1/", "http://example.org:abc/", "http://example.org:80:80/"),
]

GOOD = {
    "https://example.org": "https://example.org/",
    "  https://example.org/a?b=c#d\n": "https://example.org/a?b=c#d",
    "HTTPS://EXAMPLE.ORG./A b": "https://example.org/A%20b",
    "http://m\N{LATIN SMALL LETTER U WITH DIAERESIS}nchen.de/": "http://xn--mnchen-3ya.de/",
    "http://example.org:8080/": "http://example.org:8080/",
    "http://134744072/": "http://8.8.8.8/",
    "http://010.8/": "http://8.0.0.8/",
    "http://172.15.0.1/": "http://172.15.0.1/",
    "http://172.32.0.1/": "http://172.32.0.1/",
    "http://[2606:4700::1111]:443/": "http://[2606:4700::1111]:443/",
    "http://[64:ff9b::808:808]/": "http://[64:ff9b::808:808]/",
    "https://en.wikipedia.org/wiki/A_(b)?action=raw&x=@y": "https://en.wikipedia.org/wiki/A_(b)?action=raw&x=@y",
    "https://a_b.example.org/": "https://a_b.example.org/",
}


@pytest.mark.parametrize("url", HOSTILE)
def test_a_hostile_url_is_refused_without_a_look_up(url: str) -> None:
    with pytest.raises(NotPublicError, match="This URL is refused"):
        normalize_url(url)


@pytest.mark.parametrize("url", GOOD)
def test_a_public_url_is_written_down_in_one_way(url: str) -> None:
    assert normalize_url(url) == GOOD[url]


def test_private_hosts_are_let_through_only_where_they_are_named() -> None:
    assert normalize_url("http://127.0.0.1:81/", ["127.0.0.1"]) == "http://127.0.0.1:81/"
    assert normalize_url("http://127.0.0.1:8080/", ["127.0.0.1:8080"]) == "http://127.0.0.1:8080/"
    assert normalize_url("http://[::1]:8080/", ["[::1]:8080"]) == "http://[::1]:8080/"
    for url in ("http://127.0.0.1:8081/", "http://127.0.0.2:8080/", "http://localhost:8080/"):
        with pytest.raises(NotPublicError):
            normalize_url(url, ["127.0.0.1:8080"])


INSIDE = st.sampled_from(["10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16", "224.0.0.0/3"]).flatmap(
    lambda network: st.ip_addresses(network=network).map(int)
)


def _spellings(number: int) -> list[str]:
    a, b, c, d = number.to_bytes(4, "big")
    return [
        str(number),
        hex(number),
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}",
        f"0x{a:x}.0{b:o}.{c}.0x{d:X}",
        f"{a}.{b}.{c}.{d}.",
        f"[::ffff:{a}.{b}.{c}.{d}]",
        f"[::{number >> 16:x}:{number & 0xFFFF:x}]",
        f"[64:ff9b::{number >> 16:x}:{number & 0xFFFF:x}]",
        f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1]",
        "".join(chr(ord(each) + 0xFEE0) if each.isdigit() else each for each in f"{a}.{b}.{c}.{d}"),
    ]


@given(INSIDE)
def test_no_spelling_of_an_inside_address_gets_through(number: int) -> None:
    for host in _spellings(number):
        with pytest.raises(NotPublicError):
            normalize_url(f"http://{host}/")


_PARTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["http://", "https://", "127.0.0.1", "example.org", "@", ":", "/", "\\", "#", "?", "[", "]", "::1"]
    ),
    st.sampled_from(
        ["%2e", "0x7f", ".", ":80", "localhost", "\N{IDEOGRAPHIC FULL STOP}", "\t", "\N{FULLWIDTH SOLIDUS}"]
    ),
)


@given(st.lists(_PARTS, max_size=7).map(lambda parts: "http://" + "".join(parts)))
@example("http://example.org?@127.0.0.1/")
@example("http://example.org#@127.0.0.1/")
@example("http://example.org;@127.0.0.1/")
def test_what_gets_through_is_read_alike_by_the_client_and_stays_as_it_is(url: str) -> None:
    try:
        normal = normalize_url(url)
    except NotPublicError:
        return
    parts = urlsplit(normal)
    assert normalize_url(normal) == normal
    assert parts.hostname is not None and parts.hostname.isascii() and parts.username is None
    sent = httpx.URL(normal)
    assert sent.raw_host.decode("ascii") == parts.hostname
    assert sent.scheme == parts.scheme in ("http", "https")
    assert sent.port == (None if parts.port == {"http": 80, "https": 443}[parts.scheme] else parts.port)


def _look_up(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    async def resolved(host: str, port: int) -> list[str]:
        return list(addresses)

    monkeypatch.setattr(guard, "resolve_host", resolved)


@pytest.mark.parametrize(
    "addresses",
    [("127.0.0.1",), ("93.184.216.34", "10.0.0.1"), ("::1", "93.184.216.34"), ("fe80::1%eth0",), ("::ffff:10.0.0.1",)],
)
def test_one_address_that_is_not_public_is_enough_to_refuse(
    monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    _look_up(monkeypatch, *addresses)
    with pytest.raises(
        NotPublicError, match=r"rebound\.example\.org leads to an address that is not public"
    ) as refused:
        asyncio.run(check_public("https://rebound.example.org/", WebSettings()))
    assert not any(address in str(refused.value) for address in addresses)  # the inside's map is nobody's business


def test_a_host_with_public_addresses_alone_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    _look_up(monkeypatch, "93.184.216.34", "2606:4700::1111")
    assert asyncio.run(check_public("http://example.org", WebSettings()))[0] == "http://example.org/"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 63 + "." + "b" * 63 + ".invalid"])
def test_a_host_without_an_address_is_named(host: str) -> None:
    with pytest.raises(ToolError, match="cannot be found"):
        asyncio.run(check_public(f"https://{host}/", WebSettings()))


def test_a_blocked_page_is_refused_before_its_host_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    _look_up(monkeypatch)
    with pytest.raises(BlockedPageError):
        asyncio.run(check_public("https://huggingface.co/datasets/gaia-benchmark/GAIA", WebSettings()))


@pytest.mark.parametrize(
    ("url", "is_let_through"),
    [("https://10.0.0.1/", True), ("https://10.0.0.1:443/", True), ("https://10.0.0.1:8443/", False)],
)
def test_an_allowed_private_host_with_the_usual_port_may_be_asked_without_it(url: str, is_let_through: bool) -> None:
    if is_let_through:
        assert normalize_url(url, ["10.0.0.1:443"]) == url
    else:
        with pytest.raises(NotPublicError):
            normalize_url(url, ["10.0.0.1:443"])
