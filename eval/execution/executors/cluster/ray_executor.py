"""Runs samples in actors of a Ray cluster (`executor=ray`), for runs that one machine cannot keep up with.

    with open_cluster(config, resolved, samples) as place:
        executor = RayExecutor(LocalExecutor(config, prompts, resources), config, prompts, resolved, place)
        run_blocking(executor.with_hooks(hooks).run(info, pending, store.write, StopController()))

It differs from `ProcessExecutor` in where its workers run: the same pool in the run's process hands out samples, writes
the store and the call log, counts the budget, and gives every request its turn.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.config.executor import MAX_WORKERS, RaySettings
from eval.execution.executors.channel import Channel, Start, send_start
from eval.execution.executors.cluster.connection import BridgeSettings, Cluster
from eval.execution.executors.cluster.package import Package, open_package
from eval.execution.executors.contract import OnRecord, PendingSample
from eval.execution.executors.local import LocalExecutor
from eval.execution.executors.processes import Host, ProcessExecutor
from eval.execution.termination import StopController
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError


@dataclass(frozen=True)
class RunCluster:
    """The cluster of a run, and the files of the run that its nodes get; None: they are on this machine."""

    cluster: Cluster
    package: Package | None


@contextmanager
def open_cluster(config: EvalConfig, resolved: Mapping[str, object], samples: Sequence[Sample]) -> Iterator[RunCluster]:
    """Connect to the cluster of a run whose program has been built; a Ray of its own starts while the run begins.

    Raises:
        UserError: the cluster cannot be used, or a file must not be sent to it.
    """
    settings = config.executor
    assert isinstance(settings, RaySettings)
    with ExitStack() as stack:
        if settings.address is None:
            n_workers = min(settings.workers or os.cpu_count() or 1, config.run.concurrency)
            yield RunCluster(stack.enter_context(Cluster.open(BridgeSettings(None, n_workers))), None)
            return
        package = stack.enter_context(open_package(config, resolved, samples, settings.files))
        bridge = BridgeSettings(settings.address, n_workers=0, package=str(package.folder))
        cluster = stack.enter_context(Cluster.open(bridge))
        cluster.wait()
        yield RunCluster(cluster, package)


class RayExecutor(ProcessExecutor):
    """An Executor (see `contract.py`)."""

    def __init__(
        self,
        local: LocalExecutor,
        config: EvalConfig,
        prompts: PromptSet | None,
        resolved: Mapping[str, object],
        place: RunCluster,
    ) -> None:
        """Take over a run; see `ProcessExecutor`. `place`: where its workers run."""
        super().__init__(local, config, prompts, resolved)
        self._cluster, self._package, self._numbers = place.cluster, place.package, count(1)
        self._n_cpus = 1.0

    async def run(
        self, run_info: RunInfo, pending: Sequence[PendingSample], on_record: OnRecord, stop: StopController
    ) -> None:
        """Run the samples; see `Executor.run`."""
        if len(pending) > 1:
            try:
                self._n_cpus = await asyncio.to_thread(self._cluster.wait)
            except UserError as error:
                stop.stop_now(str(error), "errors")
            if self._package is not None:
                pending = [(self._package.move(sample), key) for sample, key in pending]
        await super().run(run_info, pending, on_record, stop)

    def _count_workers(self) -> int:
        assert isinstance(self._config.executor, RaySettings)
        return self._config.executor.workers or max(1, min(int(self._n_cpus), MAX_WORKERS))

    def _describe_start(self, run_info: RunInfo, folder: str) -> Start:
        start = super()._describe_start(run_info, folder)
        return start if self._package is None else replace(start, config=self._package.config, path=())

    async def _start_worker(self, start: Start) -> tuple[Host, Channel]:
        end = await asyncio.to_thread(self._cluster.start_worker)
        with suppress(OSError):  # it has ended, which the channel says
            await asyncio.to_thread(send_start, end, start)
        return _Actor(f"actor {next(self._numbers)}"), await Channel.open(end)


@dataclass(frozen=True)
class _Actor:
    """A Host."""

    name: str

    async def end(self, seconds: float) -> str:
        """Leave the end to the bridge, which has seen that the connection was closed."""
        return ""
