"""One command against a model server of its own, and what it cost: wall time, CPU, memory, as others see them.

measured = measure(lambda url: [sys.executable, "peer_dspy.py", url, "10", "100"], requests=800, latency_seconds=0.2)
measured.served_seconds        # from the first request to the last reply, as the server saw them
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from threading import Timer
from typing import Any

from tests.servers.fixed_llm import cpu_seconds

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests/servers/fixed_llm.py"
CALLS = 8  # of one question, one after the other


@dataclass(frozen=True)
class Measured:
    """One run, or the medians of several."""

    requests: float
    served_seconds: float  # first request to last reply
    command_seconds: float  # the whole process
    first_request_seconds: float  # from the start of the process
    cpu_seconds: float  # of the whole process, user and system
    started_cpu_seconds: float  # of these, up to the first request; 0: cannot be told on this system
    peak_mb: float  # resident set at its largest
    peak_in_flight: float
    connections: float
    core_share: float  # of one core, between the first request and the last reply; 0: cannot be told
    own_cpu_seconds: float  # as `cpu_seconds`, without its children (an exporter); on Linux alone, elsewhere with them

    @property
    def cpu_ms_per_call(self) -> float:
        return 1000 * self.cpu_seconds / self.requests

    @property
    def running_cpu_ms_per_call(self) -> float:
        """Without what the process used before its first request."""
        return 1000 * (self.cpu_seconds - self.started_cpu_seconds) / self.requests

    @property
    def after_seconds(self) -> float:
        """From the last reply to the end of the process."""
        return self.command_seconds - self.first_request_seconds - self.served_seconds

    def figures(self) -> dict[str, float]:
        per_call = {"cpu_ms_per_call": self.cpu_ms_per_call, "running_cpu_ms_per_call": self.running_cpu_ms_per_call}
        return {name: round(value, 3) for name, value in {**asdict(self), **per_call}.items()}


class FailedError(Exception):
    """The command did not do its work; the message holds the end of its output."""


class StalledError(FailedError):
    """The command was not done within its time, and was killed."""


def medians(runs: Sequence[Measured]) -> Measured:
    return Measured(
        **{each.name: statistics.median(getattr(run, each.name) for run in runs) for each in fields(Measured)}
    )


def measure(
    command: Callable[[str], list[str]], requests: int, latency_seconds: float, limit_seconds: float | None = None
) -> Measured:
    """Run the command that `command` makes of a server's base URL.

    Args:
        limit_seconds: of the whole command; then it is killed.

    Raises:
        StalledError: it was killed.
        FailedError: its exit code is not 0, or the server counted another number of requests.
    """
    with running_server(latency_seconds) as url, tempfile.TemporaryFile() as output:
        started, started_clock = time.time(), time.monotonic()
        process = subprocess.Popen(command(url), stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)
        ask_server(url, f"/watch/{process.pid}")
        own, status, used = _ended(process.pid, limit_seconds)
        process.returncode = os.waitstatus_to_exitcode(status)  # Popen must not wait for it again
        seconds, stats = time.monotonic() - started_clock, ask_server(url, "/stats")
        if limit_seconds and seconds >= limit_seconds and process.returncode == -signal.SIGKILL:
            raise StalledError(f"killed after {limit_seconds:g} s, {stats['requests']} of {requests} requests")
        if process.returncode or stats["requests"] != requests:
            output.seek(0)
            said = output.read().decode(errors="replace")[-2000:]
            raise FailedError(f"exit {process.returncode}, {stats['requests']} of {requests} requests:\n{said}")
    served = stats["last"] - stats["first"]
    return Measured(
        requests=requests,
        served_seconds=served,
        command_seconds=seconds,
        first_request_seconds=stats["first"] - started if stats["first"] else seconds,
        cpu_seconds=used.ru_utime + used.ru_stime,
        started_cpu_seconds=stats["cpu_first"],
        peak_mb=used.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3),
        peak_in_flight=stats["peak"],
        connections=stats["connections"],
        core_share=(stats["cpu_last"] - stats["cpu_first"]) / served if served else 0.0,
        own_cpu_seconds=own or used.ru_utime + used.ru_stime,
    )


def _ended(pid: int, limit_seconds: float | None) -> tuple[float, int, Any]:
    """The process's own CPU seconds (0.0: cannot be told), status and usage; the usage counts its children as well."""
    own, killing = 0.0, Timer(limit_seconds or 0.0, os.kill, (pid, signal.SIGKILL))
    if limit_seconds:
        killing.start()
    try:
        if sys.platform == "linux":  # ended, but not gone: only now and here its own time stands apart
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            own = cpu_seconds(pid)
            killing.cancel()
        _, status, used = os.wait4(pid, 0)
    finally:
        killing.cancel()
    return own, status, used


@contextmanager
def running_server(latency_seconds: float) -> Iterator[str]:
    command = [sys.executable, str(SERVER), "--port", "0", "--latency-seconds", str(latency_seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def ask_server(url: str, path: str) -> dict[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback, whatever the proxy settings
    with opener.open(url.removesuffix("/v1") + path, timeout=60) as response:
        answer: dict[str, Any] = json.load(response)
    return answer
