"""Places where the workers of a run are started: this machine, or a cluster (`cluster/run_cluster.py`).

with open_place(config, resolved, samples) as place:
    executor = WorkersExecutor(local, config, prompts, resolved, place)
"""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.config.executor import ProcessesSettings, RaySettings
from eval.execution.executors.channel import Channel, Start, send_start
from eval.execution.executors.contract import Host, Place
from mas.runtime.security.child_environment import build_child_environment

_WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class ThisMachine:
    """A Place."""

    n_workers: int

    def move(self, sample: Sample) -> Sample:
        return sample

    async def start_worker(self, start: Start) -> tuple[Host, Channel]:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.to_thread(
                subprocess.Popen,
                [sys.executable, str(_WORKER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=build_child_environment("*"),  # as in this process: the program under test may read any variable
            )
        await asyncio.to_thread(send_start, ours, start)
        return _Process(process), await Channel.open(ours)


@contextmanager
def open_place(
    config: EvalConfig, resolved: Mapping[str, object], samples: Sequence[Sample], n_runs: int = 1
) -> Iterator[Place]:
    """Open the place where the workers of a run are started, once its program has been built in this process.

    Args:
        config: of the run, with an executor that has workers.
        resolved: the same as plain dictionaries, from which workers build the program.
        samples: all that the run may answer, with their attachments.
        n_runs: that share the place at the same time.

    Yields:
        The place.

    Raises:
        UserError: the cluster cannot be used, or a file must not be sent to it.
    """
    settings = config.executor
    if isinstance(settings, RaySettings):
        from eval.execution.executors.cluster.run_cluster import open_cluster

        with open_cluster(config, resolved, samples, n_runs) as cluster:
            yield cluster
    else:
        assert isinstance(settings, ProcessesSettings)
        yield ThisMachine(settings.n_workers)


@dataclass
class _Process:
    """A Host."""

    process: "subprocess.Popen[bytes]"

    @property
    def name(self) -> str:
        return str(self.process.pid)

    async def end(self, seconds: float) -> str:
        code = await asyncio.to_thread(_reap, self.process, seconds)
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _reap(process: "subprocess.Popen[bytes]", seconds: float) -> int:
    with suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    process.kill()
    return process.wait()
