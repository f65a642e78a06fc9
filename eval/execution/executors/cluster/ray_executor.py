"""Runs samples in actors of a Ray cluster (`executor=ray`), for runs that one machine cannot keep up with.

    with open_cluster(config, resolved, samples) as cluster:
        executor = RayExecutor(LocalExecutor(config, prompts, resources), config, prompts, resolved, cluster)
        run_blocking(executor.with_hooks(hooks).run(info, pending, store.write, StopController()))

It differs from `ProcessExecutor` in where its workers run: the same pool in the run's process hands out samples, writes
the store and the call log, counts the budget, and gives every request its turn.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.config.executor import MAX_WORKERS, RaySettings
from eval.execution.executors.channel import Channel, Start, send_start
from eval.execution.executors.cluster.connection import BridgeSettings, Cluster
from eval.execution.executors.contract import OnRecord, PendingSample
from eval.execution.executors.local import LocalExecutor
from eval.execution.executors.processes import Host, ProcessExecutor
from eval.execution.termination import StopController
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError


@contextmanager
def open_cluster(config: EvalConfig, resolved: Mapping[str, object], samples: Sequence[Sample]) -> Iterator[Cluster]:
    """Connect to the cluster of a run; a Ray of its own starts while the run begins.

    Raises:
        UserError: the cluster cannot be used.
    """
    settings = config.executor
    assert isinstance(settings, RaySettings)
    n_workers = min(settings.workers or os.cpu_count() or 1, config.run.concurrency)
    with Cluster.open(BridgeSettings(settings.address, n_workers)) as cluster:
        if settings.address is not None:
            cluster.wait()
        yield cluster


class RayExecutor(ProcessExecutor):
    """An Executor (see `contract.py`)."""

    def __init__(
        self,
        local: LocalExecutor,
        config: EvalConfig,
        prompts: PromptSet | None,
        resolved: Mapping[str, object],
        cluster: Cluster,
    ) -> None:
        """Take over a run; see `ProcessExecutor`."""
        super().__init__(local, config, prompts, resolved)
        self._cluster, self._numbers = cluster, count(1)

    async def run(
        self, run_info: RunInfo, pending: Sequence[PendingSample], on_record: OnRecord, stop: StopController
    ) -> None:
        """Run the samples; see `Executor.run`."""
        if len(pending) > 1:
            try:
                self._n_cpus = await asyncio.to_thread(self._cluster.wait)
            except UserError as error:
                stop.stop_now(str(error), "errors")
        await super().run(run_info, pending, on_record, stop)

    def _count_workers(self) -> int:
        assert isinstance(self._config.executor, RaySettings)
        return self._config.executor.workers or max(1, min(int(self._n_cpus), MAX_WORKERS))

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
