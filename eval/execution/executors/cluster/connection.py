"""Connection of a run's process to a Ray cluster, through a process of its own (`ray_bridge.py`).

    with Cluster.open(BridgeSettings(address="10.0.0.5:6379", n_workers=4)) as cluster:
        cluster.wait()                       # CPUs of the cluster; UserError: it cannot be used
        end = cluster.start_worker()         # socket to a new worker, for a `Channel`

A Ray that is started for the run belongs to the user alone: others can reach its ports, but each call needs a token.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from eval.cli.paths import PROJECT_ROOT
from mas.runtime.errors import UserError
from mas.runtime.security.child_environment import build_child_environment

_CONNECT_SECONDS = 90.0  # a Ray of its own starts in 5 s on a free machine; one that ships files takes longer
_CLOSE_SECONDS = 20.0  # for workers to close their tools, and for that Ray to end
_TMP = "/tmp"  # with a longer path the addresses of Ray's sockets would be too long
_LEFT_OUT = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS")  # of other clusters


@dataclass(frozen=True)
class BridgeSettings:
    """The cluster that a run wants."""

    address: str | None  # None: a Ray of its own on this machine
    n_workers: int  # CPUs of that Ray
    folder: str = ""  # for the files of that Ray, and the user alone
    package: str | None = None  # folder of the files that workers need; None: they see those of this machine

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Cluster:
    """The process that is connected to the cluster; a new one is started if it has ended."""

    def __init__(self, settings: BridgeSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._start()

    @classmethod
    @contextmanager
    def open(cls, settings: BridgeSettings) -> Iterator["Cluster"]:
        """Start to connect, and disconnect after the block."""
        cluster = cls(settings)
        try:
            yield cluster
        finally:
            cluster.close()

    def _start(self) -> None:
        shutil.rmtree(self.settings.folder, ignore_errors=True)  # of a process that was killed
        self.settings = replace(self.settings, folder=tempfile.mkdtemp(prefix="mas-ray-", dir=_TMP))
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_CONNECT_SECONDS)
        self._n_cpus: float | None = None  # None: it is not connected yet
        self._failure: str | None = None  # why it cannot be connected
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "eval.execution.executors.cluster.ray_bridge"),
                    *(str(theirs.fileno()), self.settings.to_json()),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=_build_environment(self.settings.address),
                start_new_session=True,  # Ctrl-C is for the run's process
            )

    def wait(self) -> float:
        """Wait until the cluster is connected, and return its number of CPUs.

        Raises:
            UserError: it cannot be used.
        """
        with self._lock:
            return self._wait()

    def _wait(self) -> float:
        if self._failure is not None:
            raise UserError(self._failure)
        if self._n_cpus is None:
            try:
                self._n_cpus = self._read_cpus()
            except UserError as error:
                self._failure = str(error)
                raise
        return self._n_cpus

    def _read_cpus(self) -> float:
        where = f"the cluster at executor.address={self.settings.address}" if self.settings.address else "Ray"
        try:
            with self._control.makefile("rb") as file:
                answer = json.loads(file.readline() or b'{"error": "its process has ended"}')
        except TimeoutError:
            answer = {"error": f"no answer within {_CONNECT_SECONDS:g} s"}
        except OSError as error:
            answer = {"error": str(error)}
        if "error" in answer:
            if self.settings.address:
                hint = "; the command must run on a node of that cluster, with the same versions of Ray and Python"
            else:
                hint = ""
            raise UserError(f"{where} cannot be used: {answer['error']}{hint}.")
        return float(answer["cpus"])

    def start_worker(self) -> socket.socket:
        """Ask for a worker; return this process's end of its connection.

        Raises:
            UserError: the cluster cannot be used any longer.
        """
        with self._lock:
            self._wait()
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    socket.send_fds(self._control, [b"w"], [theirs.fileno()])
                except OSError:  # the cluster's end is the end of that process
                    self._end_process(seconds=0.0)
                    self._start()
                    self._wait()
                    socket.send_fds(self._control, [b"w"], [theirs.fileno()])
            return ours

    def close(self) -> None:
        """Disconnect; nothing that was started for this run is left."""
        self._end_process(_CLOSE_SECONDS)
        shutil.rmtree(self.settings.folder, ignore_errors=True)

    def _end_process(self, seconds: float) -> None:
        self._control.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _build_environment(address: str | None) -> dict[str, str]:
    """Return this process's environment, which workers on this machine inherit, with what Ray reads there."""
    environment = build_child_environment(
        "*", PYTHONPATH=os.pathsep.join(filter(None, [str(PROJECT_ROOT), os.environ.get("PYTHONPATH")]))
    )
    environment |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "20",  # then the cluster counts as ended
    }
    if address is None:
        environment = {name: value for name, value in environment.items() if name not in _LEFT_OUT}
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return environment
