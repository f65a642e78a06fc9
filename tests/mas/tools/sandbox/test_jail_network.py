"""Code in the jail reaches no server, be it on this very machine."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mas.tools.sandbox.conftest import Sandbox

REFUSED = "PermissionError: [Errno 1] Operation not permitted"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def nobody_came(server: socket.socket) -> bool:
    try:
        server.accept()
    except BlockingIOError:
        return True
    return False


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('127.0.0.1', PORT), timeout=2)",
        "import socket; socket.socket(socket.AF_INET6).connect(('::1', PORT))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:PORT/')",
        "import http.client; http.client.HTTPConnection('127.0.0.1', PORT).request('GET', '/')",
        "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', PORT))",
        "import smtplib; smtplib.SMTP('127.0.0.1', PORT)",
    ],
)
def test_a_server_on_loopback_is_out_of_reach(jail: Sandbox, listening: socket.socket, code: str) -> None:
    assert "Operation not permitted" in jail.error(code.replace("PORT", str(listening.getsockname()[1])))
    assert nobody_came(listening)


@pytest.mark.parametrize(
    "kind",
    [
        *("AF_INET, SOCK_STREAM", "AF_INET, SOCK_DGRAM", "AF_INET, SOCK_RAW", "AF_INET6, SOCK_DGRAM"),
        *("AF_PACKET, SOCK_RAW", "AF_NETLINK, SOCK_RAW", "AF_UNIX, SOCK_STREAM", "AF_VSOCK, SOCK_STREAM"),
        *("AF_ALG, SOCK_SEQPACKET", "AF_CAN, SOCK_RAW", "AF_BLUETOOTH, SOCK_RAW"),
    ],
)
def test_no_socket_of_any_kind(jail: Sandbox, kind: str) -> None:
    family, form = kind.split(", ")
    made = f"import socket as s; s.socket(getattr(s, {family!r}, 40), s.{form})"
    assert jail.error(made) == REFUSED


def test_no_name_is_resolved(jail: Sandbox) -> None:
    assert jail.error("import socket; socket.getaddrinfo('example.com', 80)").startswith("socket.gaierror")
    assert jail.error("import socket; socket.gethostbyname('example.com')").startswith("socket.gaierror")


def test_unix_sockets_of_the_machine_are_out_of_reach(jail: Sandbox, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    for address in (path, "\0mas-sandbox-test"):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(address)
            server.listen()
            server.setblocking(False)
            connect = f"import socket; socket.socket(socket.AF_UNIX).connect({address!r})"
            assert jail.error(connect) == REFUSED
            pair = "import socket; a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); "
            assert "Error" in jail.error(f"{pair}a.connect({address!r})")
            assert nobody_came(server)


def test_a_pair_of_sockets_within_the_code_is_fine(jail: Sandbox) -> None:
    assert jail.value("import asyncio\nasync def f(): return 4\nasyncio.run(f())") == "4"


def test_the_code_has_a_network_of_its_own(jail: Sandbox) -> None:
    jail.works()
    programs = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if b"/sandbox/worker.py" in read(path)]
    own = str(os.getpid())
    inside = [each for each in programs if b"bwrap" not in read(each / "cmdline") and own in list_ancestors(each)]
    assert inside and all((each / "ns/net").readlink() != Path("/proc/self/ns/net").readlink() for each in inside)


def list_ancestors(process: Path) -> list[str]:
    """Return the ids of the processes that started this one: others' tests may run code without a jail meanwhile."""
    found = [process.name]
    while stat := read(Path("/proc", found[-1], "stat")).rpartition(b")")[2].split():
        found.append(stat[1].decode())
    return found


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended
        return b""
