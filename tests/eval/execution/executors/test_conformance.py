"""Every executor runs samples as its contract says. A new one is added to EXECUTORS."""

import asyncio
import atexit
import functools
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest
from omegaconf import OmegaConf

from eval.benchmarks.dataset import Sample
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import EvalConfig, read_config
from eval.execution.executors.cluster.connection import RunCluster, open_cluster
from eval.execution.executors.contract import Executor, PendingSample, SampleHooks
from eval.execution.executors.local import LocalExecutor, run_side_by_side
from eval.execution.termination import StopController
from eval.runs.logs import AnswerLog, RunLogs
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.system import Resources

OPTIONS = ["system=toy", "data=toy", "model=offline", "run.concurrency=2"]


def build_local(config: EvalConfig) -> Executor:
    return LocalExecutor(config, config.read_prompts(), Resources(config.tools))


@functools.cache
def start_ray() -> RunCluster:
    """One for all tests here; it ends with their process at the latest."""
    stack = ExitStack()
    atexit.register(stack.close)
    config = read_config(compose_config([*OPTIONS, "executor=ray", "executor.workers=2"]))
    return stack.enter_context(open_cluster(config, {}, []))


def build_ray(config: EvalConfig) -> Executor:
    cluster = start_ray()
    from eval.execution.executors.cluster.ray_executor import RayExecutor

    resolved = OmegaConf.to_container(compose_config([*OPTIONS, "executor=ray"]), resolve=True)
    program = build_local(config).program
    return RayExecutor(program, config, config.read_prompts(), cast(dict[str, object], resolved), cluster)


EXECUTORS = [build_local, pytest.param(build_ray, marks=pytest.mark.slow)]


@pytest.fixture
def config() -> EvalConfig:
    return read_config(compose_config(OPTIONS))


@pytest.fixture
def pending(config: EvalConfig) -> list[PendingSample]:
    samples = config.data.load(config.split).samples[:3]
    return [(sample, SampleKey(sample.id, epoch)) for epoch in (1, 2) for sample in samples]


def answer_all(
    executor: Executor, folder: Path, pending: list[PendingSample], keep: Callable[[Record], None], stop: StopController
) -> None:
    async def run() -> None:
        answers = AnswerLog(logs, lambda error: None)
        answering = executor.open(RunInfo(run_id="r"), SampleHooks(folder, answers), stop)

        async def answer(sample: Sample, key: SampleKey) -> Record:
            return (await answering.answer(None, sample, key, SampleContext)).record

        try:
            await run_side_by_side(answer, pending, keep, stop, 2)
        finally:
            await answering.close()

    with RunLogs(folder) as logs:
        asyncio.run(run())


@pytest.mark.parametrize("build", EXECUTORS)
def test_each_sample_ends_in_one_record(
    build: Callable[[EvalConfig], Executor], config: EvalConfig, tmp_path: Path, pending: list[PendingSample]
) -> None:
    executor, records = build(config), list[Record]()
    assert isinstance(executor, Executor)
    answer_all(executor, tmp_path, pending, records.append, StopController())
    assert sorted((each.sample_id, each.epoch) for each in records) == sorted(
        (k.sample_id, k.epoch) for _, k in pending
    )
    assert {each.run_id for each in records} == {"r"}


@pytest.mark.parametrize("build", EXECUTORS)
def test_it_starts_nothing_after_a_stop_and_passes_on_what_the_store_raises(
    build: Callable[[EvalConfig], Executor], config: EvalConfig, tmp_path: Path, pending: list[PendingSample]
) -> None:
    stop, records = StopController(say=lambda line: None), list[Record]()
    stop.stop_now("enough")
    answer_all(build(config), tmp_path, pending, records.append, stop)
    assert records == []

    def fail(record: Record) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        answer_all(build(config), tmp_path, pending, fail, StopController())
