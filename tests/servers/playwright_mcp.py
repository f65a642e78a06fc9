"""The servers behind the browser tools, in processes of their own: the real one as `make browser` does it, or the stub.

with running_browser("--allow-private-hosts", "127.0.0.1:8000") as server:
    BrowserSettings(url=server.url)
    server.restart()
"""

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

START = Path(__file__).parents[2] / "deploy" / "browser" / "start.py"
_STUB = Path(__file__).with_name("mcp_browser_stub.py")
START_SECONDS = 60.0  # the first start installs the server
STOP_SECONDS = 15.0


class BrowserServer:
    """A process that listens at one port, before and after a restart."""

    def __init__(self, program: Path, arguments: Sequence[str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._command = [sys.executable, str(program), "--port", str(self.port), *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        process = self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not listens(self.port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the browser server did not start: {' '.join(self._command)}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS)
            finally:
                self._process.kill()
                self._process.wait()

    def kill(self) -> None:
        """Without a farewell."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        self.stop()
        self.start()


@contextmanager
def running_browser(*arguments: str) -> Iterator[BrowserServer]:
    yield from _running(START, arguments)


@contextmanager
def running_stub(*arguments: str) -> Iterator[BrowserServer]:
    yield from _running(_STUB, arguments)


def _running(program: Path, arguments: Sequence[str]) -> Iterator[BrowserServer]:
    server = BrowserServer(program, arguments)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def why_not() -> str:
    """In one line, why the real one cannot be started here; empty if it can."""
    absent = [name for name in ("npm", "chromium") if shutil.which(name) is None]
    return f"{absent[0]} is missing: apt-get install {' '.join(absent)}" if absent else ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
