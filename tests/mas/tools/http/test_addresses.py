"""Which addresses are public, against what the registries say."""

import pytest

from mas.tools.http.url_policy import is_public, parse_ipv4


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "1.1.1.1",
        "93.184.216.34",
        "172.15.0.1",
        "172.32.0.1",
        "2606:4700::1111",
        "2a00:1450::1",
        "::ffff:8.8.8.8",
    ],
)
def test_ordinary_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.org",
        "127.0.0.1",
        "10.1.2.3",
        "100.64.0.1",
        "192.0.2.1",
        "203.0.113.9",
        "::",
        "::1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "2002:808:808::1",
        "2001::1",
        "2001:20::1",
        "5f00::1",
        "4000::1",
        "fe80::1%1",
        "2001:db8::8",
    ],
)
def test_special_addresses_are_not(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("1.2", "1.0.0.2"),
        ("1.2.3", "1.2.0.3"),
        ("0x7f.1", "127.0.0.1"),
        ("010.8", "8.0.0.8"),
        ("4294967295", "255.255.255.255"),
        ("0x", "0.0.0.0"),
        ("4294967296", None),
        ("1.2.3.256", None),
        ("256.1", None),
        ("1.2.3.4.5", None),
        ("09", None),
        ("a.1", None),
        ("1..2", None),
        ("9" * 60, None),
    ],
)
def test_ipv4_is_read_as_browsers_read_it(host: str, address: str | None) -> None:
    assert parse_ipv4(host) == address
