"""The servers behind the browser tools, in processes of their own: the real one as `make browser` does it, or the stub.

with running_browser("--allow-private-hosts", "127.0.0.1:8000") as server:
    BrowserSettings(url=server.url)
    server.kill()
    server.start()
"""

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS, wait_for
from tests.servers.postgres import free_port

START = Path(__file__).parents[2] / "deploy" / "browser" / "start.py"
_STUB = Path(__file__).with_name("mcp_browser_stub.py")


class BrowserServer:
    """A process that listens at one port, before and after a restart."""

    def __init__(self, program: Path, arguments: Sequence[str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._command = [sys.executable, str(program), "--port", str(self.port), *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        process = self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: process.poll() is not None or listens(self.port))
        if process.poll() is not None:
            raise RuntimeError(f"the browser server did not start: {' '.join(self._command)}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(PATIENCE_SECONDS)
            finally:
                self._process.kill()
                self._process.wait()

    def kill(self) -> None:
        """Without a farewell."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@contextmanager
def running_browser(*arguments: str) -> Iterator[BrowserServer]:
    yield from _running(START, arguments)


@contextmanager
def running_stub(*arguments: str) -> Iterator[BrowserServer]:
    yield from _running(_STUB, arguments)


def _running(program: Path, arguments: Sequence[str]) -> Iterator[BrowserServer]:
    server = BrowserServer(program, arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mas.tools.browser.session.START_SECONDS", PATIENCE_SECONDS)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def why_not() -> str:
    """In one line, why the real one cannot be started here; empty if it can."""
    absent = [name for name in ("npm", "chromium") if shutil.which(name) is None]
    return f"{absent[0]} is missing: apt-get install {' '.join(absent)}" if absent else ""


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
