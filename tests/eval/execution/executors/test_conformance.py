"""Every executor runs samples as its contract says. A new one is added to EXECUTORS."""

import asyncio
import atexit
import functools
from collections.abc import Callable
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from typing import cast

import pytest
from omegaconf import OmegaConf

from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import EvalConfig, read_config
from eval.config.executor import RaySettings
from eval.execution.executors.cluster.connection import RunCluster, open_cluster
from eval.execution.executors.cluster.ray_executor import RayExecutor
from eval.execution.executors.contract import Executor, PendingSample, SampleHooks
from eval.execution.executors.local import LocalExecutor
from eval.execution.termination import StopController
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.runtime.sample_context import SampleKey
from mas.system import Resources

OPTIONS = ["system=toy", "data=toy", "model=offline", "run.concurrency=2"]


def build_local(config: EvalConfig, folder: Path) -> LocalExecutor:
    return LocalExecutor(config, config.read_prompts(), Resources(config.tools)).with_hooks(SampleHooks(folder))


@functools.cache
def start_ray() -> RunCluster:
    """One for all tests here; it ends with their process at the latest."""
    stack = ExitStack()
    atexit.register(stack.close)
    config = read_config(compose_config([*OPTIONS, "executor=ray", "executor.workers=2"]))
    return stack.enter_context(open_cluster(config, {}, []))


def build_ray(config: EvalConfig, folder: Path) -> RayExecutor:
    config.executor = RaySettings(workers=2)
    resolved = OmegaConf.to_container(compose_config([*OPTIONS, "executor=ray"]), resolve=True)
    local = build_local(config, folder)
    executor = RayExecutor(local, config, config.read_prompts(), cast(dict[str, object], resolved), start_ray())
    return executor.with_hooks(SampleHooks(folder))


EXECUTORS = [build_local, pytest.param(build_ray, marks=pytest.mark.slow)]


@pytest.fixture
def config() -> EvalConfig:
    return read_config(compose_config(OPTIONS))


@pytest.fixture
def pending(config: EvalConfig) -> list[PendingSample]:
    samples = config.data.load(config.split).samples[:3]
    return [(sample, SampleKey(sample.id, epoch)) for epoch in (1, 2) for sample in samples]


@pytest.mark.parametrize("build", EXECUTORS)
def test_it_has_every_method_of_the_contract(
    build: Callable[[EvalConfig, Path], Executor], config: EvalConfig, tmp_path: Path
) -> None:
    executor = build(config, tmp_path)
    assert isinstance(executor, Executor)
    assert signature(type(executor).run) == signature(Executor.run)


@pytest.mark.parametrize("build", EXECUTORS)
def test_each_sample_ends_in_one_record(
    build: Callable[[EvalConfig, Path], Executor], config: EvalConfig, tmp_path: Path, pending: list[PendingSample]
) -> None:
    records: list[Record] = []
    asyncio.run(build(config, tmp_path).run(RunInfo(run_id="r"), pending, records.append, StopController()))
    assert sorted((each.sample_id, each.epoch) for each in records) == sorted(
        (k.sample_id, k.epoch) for _, k in pending
    )
    assert {each.run_id for each in records} == {"r"}


@pytest.mark.parametrize("build", EXECUTORS)
def test_it_starts_nothing_after_a_stop_and_passes_on_what_the_store_raises(
    build: Callable[[EvalConfig, Path], Executor], config: EvalConfig, tmp_path: Path, pending: list[PendingSample]
) -> None:
    stop, records = StopController(say=lambda line: None), list[Record]()
    stop.stop_now("enough")
    asyncio.run(build(config, tmp_path).run(RunInfo(run_id="r"), pending, records.append, stop))
    assert records == []

    def fail(record: Record) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        asyncio.run(build(config, tmp_path).run(RunInfo(run_id="r"), pending, fail, StopController()))
