"""Policy for URLs: only public web pages, and only those that are not blocked.

`ipaddress` knows most of the special ranges, but not the same ones in every Python version, and calls some public that
lead inside: IPv4 addresses within IPv6 ones, relays of tunnels, a cloud's own services.

Pages that publish the benchmark with its answers are refused before anything is sent, dropped from search results, and
each is an event in the record. An entry may occur anywhere in the decoded URL, in upper or lower case (coarse on
purpose: a mirror's address contains the original one); `*` matches any characters but `?` and `#`.
"""

import asyncio
import functools
import ipaddress
import re
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit, urlunsplit

from mas.runtime.trace import event
from mas.tools.results import ToolError
from mas.tools.settings import WebSettings

BLOCKED_PAGE = "blocked page"  # name of the event
BLOCKED_SITES = (
    *("gaia-benchmark", "gaia_benchmark"),  # the benchmark's own, and repositories about it
    # Copies and agents' answer files under any name; no question needs a dataset or demo from there.
    *("huggingface.co/datasets", "huggingface.co/spaces", "hf.co/datasets", "hf.co/spaces", "hf-mirror.com/"),
    *(".hf.space", "datasets/*/gaia", "spaces/*/gaia"),  # mirrors keep the hub's paths
    # A course whose final assignment is twenty questions of the validation set.
    *("agents-course", "agent-course", "github.com/*final*assignment", "deepwiki.com/*final*assignment"),
    # Agents with questions, gold answers and transcripts as fixtures; pages made from such repositories.
    *("github.com/*gaia", "githubusercontent.com/*gaia", "github.io/*gaia", "gitlab.com/*gaia", "deepwiki.com/*gaia"),
    *("jsdelivr.net/gh/*gaia", "kaggle.com/*gaia"),
    # Files with an agent's answers, in repositories of other names (eax6/smolagents and copies).
    *("github.com/*output/validation", "githubusercontent.com/*output/validation"),
    "jsdelivr.net/gh/*output/validation",
    "hal.cs.princeton.edu/gaia",  # leaderboard with transcripts
    "2311.12983",  # the paper prints questions with answers; its number is in the address of every copy
    "fibxvahvs3",  # the same paper on OpenReview
    "paperswithcode.com/dataset/gaia",
)
_UP = re.compile(r"/(?!\.\./)[^/?#]+/\.\./")
_MAX_UNQUOTING = 3  # a URL inside a URL inside a URL
MAX_URL_CHARS = 4_000
_look_ups = ThreadPoolExecutor(16, "look-up")  # of its own: the loop's may all wait for one
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # the IPv4 address in it is where the packets go
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # all assigned addresses; any other is special
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(each)
    for each in (
        *("0.0.0.0/8", "192.0.0.0/24", "198.18.0.0/15", "224.0.0.0/3"),
        *("100.64.0.0/10", "168.63.129.16/32"),  # carriers' NAT, a cloud's metadata service
        *("192.88.99.0/24", "2001::/23", "2002::/16"),  # tunnels to an IPv4 address: 6to4, Teredo
        *("2001:db8::/32", "3fff::/20"),  # documentation
    )
)
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")  # browsers drop or change them
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")  # at the end of a host: read as IPv4
_INSIDE = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "home.arpa", "onion")
_PORTS = {"http": 80, "https": 443}  # and all from 1024: lower ones are of other services


class NotPublicError(ToolError):
    """The URL is malformed, or does not lead to a public page."""

    def __init__(self, why: str) -> None:
        super().__init__(f"This URL is refused: {why}. Only public web pages (http, https) can be read; try another.")


async def check_public(url: str, settings: WebSettings) -> tuple[str, list[str]]:
    """Return the URL to request and all addresses of its host, each of which is public at this moment.

    ToolError: it must not be requested, or its host cannot be found.
    """
    normal = normalize_url(url, settings.allow_private_hosts)
    refuse_blocked(normal, settings)
    return normal, await resolve_public(normal, settings.allow_private_hosts)


async def resolve_public(url: str, allow_private_hosts: Sequence[str]) -> list[str]:
    """Return the addresses of a normal URL's host; ToolError: there are none, or one is not public."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    addresses = await resolve_host(host, parts.port or _PORTS[parts.scheme])
    if not addresses:
        raise ToolError(f"The host {host} cannot be found; check how it is written, or search for the page.")
    if not _is_allowed(parts.scheme, parts.netloc, allow_private_hosts) and not all(map(is_public, addresses)):
        raise NotPublicError(f"the host {host} leads to an address that is not public")
    return addresses


def normalize_url(url: str, allow_private_hosts: Sequence[str] = ()) -> str:
    """Return the URL with its host in ASCII and its usual form; NotPublicError: it is refused."""
    text = url.strip()
    if not text or len(text) > MAX_URL_CHARS or _FORBIDDEN.search(text):
        raise NotPublicError("it is empty, too long, or has a character that no URL has, such as a line break")
    try:
        parts = urlsplit(text.replace(" ", "%20"))
        hostname, port = parts.hostname, parts.port
    except ValueError as error:
        raise NotPublicError("it cannot be read as a URL, or its port is no number from 1 to 65535") from error
    if parts.scheme not in ("http", "https"):
        raise NotPublicError("it does not begin with http:// or https://")
    if not hostname or "@" in parts.netloc or "%" in parts.netloc:
        raise NotPublicError("it has no host, or a user name or percent sign in its host")
    host = _read_host(hostname, is_bracketed=parts.netloc.startswith("["))
    name = f"[{host}]" if ":" in host else host
    netloc = name if port is None else f"{name}:{port}"
    if not _is_allowed(parts.scheme, netloc, allow_private_hosts):
        if ":" in host or _is_numeric(host):
            if not is_public(host):
                raise NotPublicError("its host is an address that is not public")
        elif "." not in host or host.endswith(tuple(f".{name}" for name in _INSIDE)):
            raise NotPublicError(f"its host, {host}, is a name inside a network")
        if port is not None and port not in _PORTS.values() and port < 1024:
            raise NotPublicError(f"port {port} belongs to something other than the web")
    return urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, parts.fragment))


def _is_allowed(scheme: str, netloc: str, allow_private_hosts: Sequence[str]) -> bool:
    host = re.sub(r":\d+$", "", netloc)
    names = {host, netloc if host != netloc else f"{host}:{_PORTS[scheme]}"}
    return not names.isdisjoint(allow_private_hosts)


async def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses that the operating system finds, in its order."""
    look_up = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.get_running_loop().run_in_executor(_look_ups, look_up)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_public(address: str) -> bool:
    """Return True for an address that anybody on the internet can reach."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found in _NAT64:
            found = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        elif found not in _GLOBAL_UNICAST or found.scope_id:
            return False
    return found.is_global and not any(found in network for network in _NOT_PUBLIC)


def _read_host(host: str, is_bracketed: bool) -> str:
    """Return the host in its usual form; full-width digits and dots become ordinary ones."""
    try:
        if is_bracketed:
            return str(ipaddress.IPv6Address(host))
        if not host.isascii():
            import idna

            host = idna.encode(host, uts46=True).decode("ascii")
        host = host.lower().removesuffix(".")
        if _HOST.fullmatch(host) is None:
            raise ValueError
        # A number has one to four decimal, octal or hexadecimal parts.
        return socket.inet_ntoa(socket.inet_aton(host)) if _is_numeric(host) else host
    except (ValueError, OSError) as error:  # of idna, too
        raise NotPublicError("its host is neither a name nor an address") from error


def _is_numeric(host: str) -> bool:
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


class BlockedPageError(ToolError):
    """The page is on the block list."""


def refuse_blocked(url: str, settings: WebSettings) -> None:
    """Refuse a URL that is on the list, and note it in the record."""
    text = _decode(url)
    for pattern in (*BLOCKED_SITES, *settings.more_blocked_sites):
        if _compile(pattern).search(text):
            event(BLOCKED_PAGE, level="warning", url=url[:500], pattern=pattern)
            raise BlockedPageError(
                "This page is blocked: its address is one of those that publish this benchmark's answers "
                f"({pattern}). Find the facts in another source."
            )


def _decode(url: str) -> str:
    """Return a URL as a server reads it: unquoted, without `//`, `.` segments and a host's last dot."""
    text = url
    for _ in range(_MAX_UNQUOTING):
        text = unquote(text)
    text = text.replace("\\", "/").casefold()
    text = re.sub(r"(?<=[a-z0-9])\.(?=[/:?#]|$)", "", text)
    text = re.sub(r":(?:80|443)(?=[/?#]|$)", "", text)
    text = re.sub(r"/(?:\./|/)+", "/", text)
    while (shorter := _UP.sub("/", text)) != text:
        text = shorter
    return re.sub(r"([a-z0-9])-co\.translate\.goog", r"\1.co", text).replace("-com.translate.goog", ".com")


@functools.cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile("[^?#]*".join(re.escape(part) for part in pattern.casefold().split("*")))
