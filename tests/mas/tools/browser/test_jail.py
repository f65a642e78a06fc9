"""The jail of the browser's server: its two doors work, and nothing else of the machine or its network is there."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.tools.browser.jail import PROXY_PORT, PROXY_SOCKET, Jail, build_jail_environment, find_jail
from mas.tools.browser.proxy import start_proxy
from mas.tools.sandbox.bubblewrap import find_program
from mas.tools.sandbox.session import NotAvailableError
from tests.needs import needs, skip_without
from tests.servers.playwright_mcp import free_port

# In the place of the browser's server: answers each connection with what it can reach.
SERVER = """
import http.server, json, os, socket, sys, urllib.request
port, outside, udp, site = sys.argv[1:]
HOSTS, FILES = ("127.0.0.1", "192.0.2.1", "8.8.8.8"), ("/home", "/etc/passwd", "/var/lib", "/run", "PROJECT")
def attempt(what):
    try: return what() or "done"
    except Exception as error: return type(error).__name__
def proxied(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:PROXY"}))
    return opener.open(url, timeout=10).read().decode()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        found = {
            "tcp": attempt(lambda: socket.create_connection(("127.0.0.1", int(outside)), 2)),
            "udp": [attempt(lambda: datagram.sendto(b"x", (host, int(udp)))) for host in HOSTS],
            "site": attempt(lambda: proxied(site)),
            "inside": attempt(lambda: proxied(f"http://127.0.0.1:{port}/")),
            "files": [path for path in FILES if os.path.exists(path)],
            "interfaces": [name for _, name in socket.if_nameindex()],
            "environment": sorted(os.environ), "processes": len([p for p in os.listdir("/proc") if p.isdigit()]),
            "root": os.geteuid() == 0, "written": attempt(lambda: open("/usr/x", "w")),
        }
        body = json.dumps(found).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
""".replace("127.0.0.1:PROXY", f"127.0.0.1:{PROXY_PORT}").replace("PROJECT", str(PROJECT_ROOT / "pyproject.toml"))

PYTHON = str(Path(sys.executable).resolve())


@pytest.fixture(scope="module")
def bwrap() -> str:
    skip_without("bubblewrap")
    return find_program()[0]


@pytest.fixture
def site() -> Iterator[ThreadingHTTPServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"the site")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def ask(bwrap: str, folder: Path, *arguments: str, allowed: str) -> dict[str, object]:
    """Return what the server in the jail answers to a client outside."""
    (folder / "server.py").write_text(SERVER)
    port = free_port()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = listener.getsockname()
        server = [PYTHON, "-S", "/tmp/server.py", str(port), *arguments]
        proxy = await start_proxy([allowed], path=folder / PROXY_SOCKET)
        process = await asyncio.create_subprocess_exec(
            *Jail(bwrap).build_command(folder, listener, port, [], server),
            env=build_jail_environment(),
            pass_fds=[listener.fileno()],
        )
    try:
        async with asyncio.timeout(20):
            while True:
                try:
                    reader, writer = await asyncio.open_connection(*address)
                    break
                except ConnectionRefusedError:  # until the server listens
                    assert process.returncode is None
                    await asyncio.sleep(0.05)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            body = (await reader.read()).partition(b"\r\n\r\n")[2]
            writer.close()
    finally:
        proxy.close()
        process.kill()
        await process.wait()
    return dict(json.loads(body))


def test_only_the_proxy_leads_out(
    bwrap: str, tmp_path: Path, site: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    with socket.create_server(("127.0.0.1", 0)) as outside, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("0.0.0.0", 0))
        udp.setblocking(False)
        outside.setblocking(False)
        ports = (str(outside.getsockname()[1]), str(udp.getsockname()[1]))
        address = f"127.0.0.1:{site.server_port}"
        found = asyncio.run(ask(bwrap, tmp_path, *ports, f"http://{address}/", allowed=address))
        with pytest.raises(BlockingIOError):
            udp.recv(10)
        with pytest.raises(BlockingIOError):
            outside.accept()
    assert found["site"] == "the site", "through both doors"
    assert found["inside"] == "HTTPError", "the proxy does not lead back"
    assert found["tcp"] == "ConnectionRefusedError"
    assert found["udp"][1:] == ["OSError", "OSError"]  # type: ignore[index]  # no route
    assert found["interfaces"] == ["lo"]
    assert found["files"] == [] and found["written"] == "OSError" and found["root"] is False
    assert "OPENAI_API_KEY" not in found["environment"]  # type: ignore[operator]
    assert found["processes"] <= 3  # type: ignore[operator]  # bwrap's, the doors, the server


@needs("procps")
def test_it_ends_with_whoever_started_it(bwrap: str, tmp_path: Path) -> None:
    program = (
        "import os, signal, socket, subprocess, sys\nfrom pathlib import Path\n"
        "from mas.tools.browser.jail import Jail, build_jail_environment\n"
        "listener = socket.socket(); listener.bind(('127.0.0.1', 0))\n"
        f"command = Jail({bwrap!r}).build_command(Path({str(tmp_path)!r}), listener, 4000, [], ['sleep', '321.5'])\n"
        "fds = [listener.fileno()]\n"
        "subprocess.Popen(command, env=build_jail_environment(), pass_fds=fds, start_new_session=True)\n"
        "while subprocess.run(['pgrep', '-f', '^sleep 321.5'], stdout=subprocess.DEVNULL).returncode: pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    for _ in range(200):
        if subprocess.run(["pgrep", "-f", "^sleep 321.5"], stdout=subprocess.DEVNULL).returncode:
            return
        subprocess.run(["sleep", "0.05"])
    pytest.fail("the server has outlived it")


@pytest.mark.parametrize("chromium", ["/usr/bin/true", "/no/such/chromium"])
def test_a_chromium_that_does_not_run_in_it_is_a_sentence(bwrap: str, tmp_path: Path, chromium: str) -> None:
    with pytest.raises(NotAvailableError, match=r"^bubblewrap cannot run Chromium here \(.+\)\.$"):
        find_jail(chromium, tmp_path)
