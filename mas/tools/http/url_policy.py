"""Policy for URLs: only public web pages, and only those that are not blocked.

`ipaddress` knows most of the special ranges, but not the same ones in every Python version, and calls some public that
lead inside: IPv4 addresses within IPv6 ones, relays of tunnels, a cloud's own services.

    is_public("93.184.216.34")      # True
    parse_ipv4("0x7f.1")               # "127.0.0.1", as browsers and the C library read it
"""

import asyncio
import functools
import ipaddress
import re
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import SplitResult, urlsplit, urlunsplit

from mas.tools.http.blocked_sites import list_blocked, refuse_blocked
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings
from mas.tools.tool_context import get_settings

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # the IPv4 address in it is where the packets go
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # all assigned addresses; any other is special
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # carriers' NAT; the metadata service of one cloud
        "168.63.129.16/32",  # the platform's own service in another cloud
        "192.0.0.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "198.18.0.0/15",
        "240.0.0.0/4",
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarking
        "2001:db8::/32",
        "2002::/16",  # 6to4: holds an IPv4 address
        "3fff::/20",
    )
)
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def is_public(address: str) -> bool:
    """Return True for an address that anybody on the internet can reach."""
    try:
        return _is_public(ipaddress.ip_address(address))
    except ValueError:
        return False


def _is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            return False
        if address.ipv4_mapped is not None:
            return _is_public(address.ipv4_mapped)
        if address in _NAT64:
            return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _GLOBAL_UNICAST:
            return False
    special = any(address.version == network.version and address in network for network in _NOT_PUBLIC)
    return not special and address.is_global and not address.is_multicast and not address.is_reserved


def is_numeric_host(host: str) -> bool:
    """Return True if browsers read the host as an IPv4 address, in any notation."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def parse_ipv4(host: str) -> str | None:
    """Return the usual form of an IPv4 address with one to four decimal, octal or hexadecimal parts, else None."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None


MAX_URL_CHARS = 4_000
MAX_LOOK_UPS = 16  # at a time
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")  # browsers drop or change them, other clients do not
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_INSIDE = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "home.arpa", "onion")
_PORTS = {80, 443}  # and all from 1024: lower ones belong to services other than the web


class NotPublicError(ToolError):
    """The URL is malformed, or does not lead to a public page."""


class HostNotFoundError(ToolError):
    """The host has no address."""


async def check_public(url: str, settings: WebSettings | None = None) -> str:
    """Return the URL to request, after checking that its host is public at this moment and the page is not blocked.

    Raises:
        ToolError: it must not be requested, or its host cannot be found.
    """
    settings = settings or get_settings(WebSettings)
    normal = normalize_url(url, settings.allow_private_hosts)
    refuse_blocked(normal, list_blocked(settings))
    parts = urlsplit(normal)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    await resolve_public_host(parts.hostname or "", port, settings.allow_private_hosts)
    return normal


def normalize_url(url: str, allow_private_hosts: Sequence[str] = ()) -> str:
    """Return the URL with its host in ASCII and in its usual form, without a look-up.

    Raises:
        NotPublicError: it cannot lead to a public web page.
    """
    parts = _split_url(url.strip())
    host = _read_host(parts.netloc, parts.hostname)
    port = _read_port(parts)
    name = f"[{host}]" if ":" in host else host
    if not is_allowed(host, port, allow_private_hosts):
        _check_host(host)
        _check_port(port)
    netloc = name if port is None else f"{name}:{port}"
    return urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, parts.fragment))


def is_allowed(host: str, port: int | None, allow_private_hosts: Sequence[str]) -> bool:
    """Return True if the host is one of those that may be private."""
    name = f"[{host}]" if ":" in host else host
    return host in allow_private_hosts or f"{name}:{port}" in allow_private_hosts


async def resolve_public_host(host: str, port: int, allow_private_hosts: Sequence[str] = ()) -> list[str]:
    """Return all addresses of the host, after checking that each is public.

    Raises:
        NotPublicError: one of them is not public.
        HostNotFoundError: there are none.
    """
    host = host.removesuffix(".")
    addresses = await resolve_host(host, port)
    if not addresses:
        raise HostNotFoundError(f"The host {host} cannot be found; check how it is written, or search for the page.")
    if not is_allowed(host, port, allow_private_hosts) and not all(is_public(address) for address in addresses):
        raise _refusal(f"the host {host} leads to an address that is not public")
    return addresses


async def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses that the operating system finds, in its order."""
    look_up = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.get_running_loop().run_in_executor(_look_ups(), look_up)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@functools.cache
def _look_ups() -> ThreadPoolExecutor:
    """Return a pool for look-ups alone: all threads of the loop may be packages that wait for one."""
    return ThreadPoolExecutor(MAX_LOOK_UPS, "look-up")


def _refusal(why: str) -> NotPublicError:
    return NotPublicError(f"This URL is refused: {why}. Only public web pages (http, https) can be read; try another.")


def _split_url(text: str) -> SplitResult:
    if not text or len(text) > MAX_URL_CHARS:
        raise _refusal(f"it is empty or longer than {MAX_URL_CHARS} characters")
    if _FORBIDDEN.search(text):
        raise _refusal("it has a character that no URL has, such as a line break or a backslash")
    try:
        parts = urlsplit(text.replace(" ", "%20"))
        _ = parts.hostname
    except ValueError as error:
        raise _refusal("it cannot be read as a URL") from error
    if parts.scheme not in ("http", "https"):
        raise _refusal("it does not begin with http:// or https://")
    if "@" in parts.netloc:
        raise _refusal("it has a user name in front of its host")
    return parts


def _read_host(netloc: str, host: str | None) -> str:
    if not host or "%" in netloc:
        raise _refusal("it has no host, or one with a percent sign")
    if netloc.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host))
        except ValueError as error:
            raise _refusal("its host is no IPv6 address") from error
    host = _to_ascii(host).removesuffix(".")
    if _HOST.fullmatch(host) is None:
        raise _refusal("its host is no name of one")
    if not is_numeric_host(host):
        return host
    address = parse_ipv4(host)
    if address is None:
        raise _refusal("its host ends in a number, but is no IPv4 address")
    return address


def _to_ascii(host: str) -> str:
    """Return an international name as it is looked up; full-width digits and dots become ordinary ones."""
    if host.isascii():
        return host.lower()
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise _refusal("its host is no international name") from error


def _read_port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError as error:
        raise _refusal("its port is no number from 1 to 65535") from error


def _check_host(host: str) -> None:
    if ":" in host or is_numeric_host(host):
        if not is_public(host):
            raise _refusal("its host is an address that is not public")
    elif "." not in host or host.endswith(tuple(f".{name}" for name in _INSIDE)):
        raise _refusal(f"its host, {host}, is a name inside a network")


def _check_port(port: int | None) -> None:
    if port is not None and port not in _PORTS and port < 1024:
        raise _refusal(f"port {port} belongs to something other than the web")
