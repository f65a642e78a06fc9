"""Samples are answered as the contract says, in this process and in workers."""

import asyncio
import atexit
import functools
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import EvalConfig, read_config
from eval.execution.executors.cluster.connection import RunCluster, open_cluster
from eval.execution.executors.local import Answering, PendingSample, create_answering, run_side_by_side
from eval.execution.termination import StopController
from eval.runs.logs import RunLogs
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.system import Resources

Open = Callable[[EvalConfig, Path, RunLogs, StopController], Answering]
INFO = RunInfo(run_id="r")
OPTIONS = ["system=toy", "data=toy", "model=offline", "run.concurrency=2"]


def open_local(config: EvalConfig, folder: Path, logs: RunLogs, stop: StopController) -> Answering:
    prompts = config.read_prompts()
    program = config.system.build(config.model, prompts, Resources(config.tools))
    return create_answering(config, program, prompts, INFO, logs)


@functools.cache
def start_ray() -> RunCluster:
    """One for all tests here; it ends with their process at the latest."""
    stack = ExitStack()
    atexit.register(stack.close)
    config = read_config(compose_config([*OPTIONS, "executor=ray", "executor.workers=2"]))
    return stack.enter_context(open_cluster(config, []))


def open_ray(config: EvalConfig, folder: Path, logs: RunLogs, stop: StopController) -> Answering:
    cluster = start_ray()
    from eval.execution.executors.cluster.ray_executor import RayAnswering, SampleHooks

    return RayAnswering(cluster, config, config.read_prompts(), INFO, SampleHooks(folder, logs), stop)


OPENERS = [open_local, pytest.param(open_ray, marks=pytest.mark.slow)]


@pytest.fixture
def config() -> EvalConfig:
    return read_config(compose_config(OPTIONS))


@pytest.fixture
def pending(config: EvalConfig) -> list[PendingSample]:
    samples = config.data.load(config.split).samples[:3]
    return [(sample, SampleKey(sample.id, epoch)) for epoch in (1, 2) for sample in samples]


def answer_all(
    open_answering: Open, config: EvalConfig, folder: Path, pending: list[PendingSample],
    keep: Callable[[Record], None], stop: StopController,
) -> None:  # fmt: skip
    async def run() -> None:
        answering = open_answering(config, folder, logs, stop)

        async def answer(sample: Sample, key: SampleKey) -> Record:
            return (await answering.answer(None, sample, key, SampleContext)).record

        try:
            await run_side_by_side(answer, pending, keep, stop, 2)
        finally:
            await answering.close()

    with RunLogs(folder) as logs:
        asyncio.run(run())


@pytest.mark.parametrize("open_answering", OPENERS)
def test_each_sample_ends_in_one_record(
    open_answering: Open, config: EvalConfig, tmp_path: Path, pending: list[PendingSample]
) -> None:
    records = list[Record]()
    answer_all(open_answering, config, tmp_path, pending, records.append, StopController())
    assert sorted((each.sample_id, each.epoch) for each in records) == sorted(
        (k.sample_id, k.epoch) for _, k in pending
    )
    assert {each.run_id for each in records} == {"r"}


@pytest.mark.parametrize("open_answering", OPENERS)
def test_it_starts_nothing_after_a_stop_and_passes_on_what_the_store_raises(
    open_answering: Open, config: EvalConfig, tmp_path: Path, pending: list[PendingSample]
) -> None:
    stop, records = StopController(say=lambda line: None), list[Record]()
    stop.stop_now("enough")
    answer_all(open_answering, config, tmp_path, pending, records.append, stop)
    assert records == []

    def fail(record: Record) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        answer_all(open_answering, config, tmp_path, pending, fail, StopController())
