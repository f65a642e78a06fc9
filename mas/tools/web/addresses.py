"""Which internet addresses are public, and how a host that is one in disguise is read.

`ipaddress` knows most of the special ranges, but not the same ones in every Python version, and calls some public that
lead inside: IPv4 in IPv6 clothes, relays of tunnels, a cloud's own services.

    is_public("93.184.216.34")      # True
    ipv4_of("0x7f.1")               # "127.0.0.1", as browsers and the C library read it
"""

import ipaddress
import re

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # the IPv4 address in it is where the packets go
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # all that is given out; anything else is special or unassigned
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
    """Whether anybody on the internet may talk to it; False for what is no address."""
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


def ends_in_number(host: str) -> bool:
    """Whether browsers read the host as an IPv4 address, however it is written."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def ipv4_of(host: str) -> str | None:
    """The usual form of an IPv4 address with one to four decimal, octal or hexadecimal parts; None: it is none.

    As the URL standard's IPv4 parser has it (https://url.spec.whatwg.org/#concept-ipv4-parser).
    """
    numbers = [_number(part) for part in host.split(".")]
    if not 1 <= len(numbers) <= 4 or any(number is None for number in numbers):
        return None
    values = [number for number in numbers if number is not None]
    if any(value > 255 for value in values[:-1]) or values[-1] >= 256 ** (5 - len(values)):
        return None
    whole = values[-1] + sum(value * 256 ** (3 - position) for position, value in enumerate(values[:-1]))
    return str(ipaddress.IPv4Address(whole))


def _number(part: str) -> int | None:
    if _NUMBER.fullmatch(part) is None or len(part) > 40:
        return None
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    octal = len(part) > 1 and part.startswith("0")
    return None if octal and set(part) & {"8", "9"} else int(part, 8 if octal else 10)
