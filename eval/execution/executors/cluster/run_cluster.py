"""Place of workers in a Ray cluster (`executor=ray`), for runs that one machine cannot keep up with.

    with open_cluster(config, resolved, samples) as place:
        host, channel = await place.start_worker(start)         # a worker in a new actor

All else is as with processes: the pool in the run's process (`processes.py`) hands out samples, writes the store and
the call log, counts the budget, and gives every request its turn.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.config.executor import MAX_WORKERS, RaySettings
from eval.execution.executors.channel import Channel, Start, send_start
from eval.execution.executors.cluster.connection import BridgeSettings, Cluster
from eval.execution.executors.cluster.package import Package, open_package
from eval.execution.executors.contract import Host
from mas.runtime.errors import UserError


@dataclass(frozen=True)
class RunCluster:
    """A Place (see `places.py`)."""

    cluster: Cluster
    package: Package | None  # the files of the run that its nodes get; None: they are on this machine
    n_workers: int
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def move(self, sample: Sample) -> Sample:
        return sample if self.package is None else self.package.move(sample)

    async def start_worker(self, start: Start) -> tuple[Host, Channel]:
        if self.package is not None:
            start = replace(start, config={**start.config, **self.package.config}, path=())
        end = await asyncio.to_thread(self.cluster.start_worker)
        with suppress(OSError):  # it has ended, which the channel says
            await asyncio.to_thread(send_start, end, start)
        return _Actor(f"actor {next(self._numbers)}"), await Channel.open(end)


@contextmanager
def open_cluster(
    config: EvalConfig, resolved: Mapping[str, object], samples: Sequence[Sample], n_runs: int = 1
) -> Iterator[RunCluster]:
    """Connect to the cluster of a run; a Ray of its own starts while the run begins. See `open_place`.

    Raises:
        UserError: the cluster cannot be used, has too few CPUs, or a file must not be sent to it.
    """
    settings = config.executor
    assert isinstance(settings, RaySettings)
    with ExitStack() as stack:
        if settings.address is None:
            n_workers = settings.workers or os.cpu_count() or 1
            n_cpus = max(n_runs, min(n_workers, config.run.concurrency))
            yield RunCluster(stack.enter_context(Cluster.open(BridgeSettings(None, n_cpus))), None, n_workers)
            return
        package = stack.enter_context(open_package(config, resolved, samples, settings.files))
        bridge = BridgeSettings(settings.address, n_workers=0, package=str(package.folder))
        cluster = stack.enter_context(Cluster.open(bridge))
        n_cpus = int(cluster.wait())
        if n_cpus < n_runs:
            raise UserError(
                f"the cluster at executor.address={settings.address} has {n_cpus} CPUs, and {n_runs} programs are "
                f"compared at the same time; add nodes until it has {n_runs} CPUs, or use executor=processes."
            )
        yield RunCluster(cluster, package, settings.workers or max(1, min(n_cpus, MAX_WORKERS)))


@dataclass(frozen=True)
class _Actor:
    """A Host."""

    name: str

    async def end(self, seconds: float) -> str:
        """Leave the end to the bridge, which has seen that the connection was closed."""
        return ""
