"""Which worker of a Ray cluster gets which sample, with workers that start, answer and die when a test says so."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from eval.execution.executors.cluster.connection import RunCluster
from eval.execution.executors.cluster.messages import Start
from eval.execution.executors.contract import AnsweredTrial, SampleHooks
from eval.execution.executors.local import run_side_by_side
from eval.execution.termination import StopController
from eval.runs.logs import AnswerLog, RunLogs
from eval.runs.record import Record, build_blank_record
from eval.runs.run_info import RunInfo
from mas.runtime.sample_context import SampleContext, SampleKey


class ScriptedWorker:
    """A RemoteWorker without an actor."""

    def __init__(self, *arguments: object) -> None:
        self.name, self.how_it_ended = "scripted", "killed"
        self.is_ready = self.is_alone = False
        self.leases: dict[int, Any] = {}
        self.given: list[str] = []
        self.ended = asyncio.Event()

    async def serve(self, start: Start, hand_out: Callable[[], None]) -> None:
        self.hand_out = hand_out
        await self.ended.wait()

    async def end(self) -> None: ...

    def give(self, lease: int, job: Any, sample: Sample) -> None:
        self.leases[lease] = job
        self.given.append(sample.id)

    async def start(self) -> None:
        self.is_ready = True
        self.hand_out()
        await settle()

    async def answer(self) -> None:
        for lease in list(self.leases):
            job = self.leases.pop(lease)
            job.finish(AnsweredTrial(build_blank_record("r", job.sample, job.key, thread_id="")))
        self.hand_out()
        await settle()

    async def die(self) -> None:
        self.ended.set()
        await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedWorker]:
    """Those that were started."""
    from eval.execution.executors.cluster import ray_executor

    started = list[ScriptedWorker]()

    def start(*arguments: object) -> ScriptedWorker:
        started.append(ScriptedWorker())
        return started[-1]

    monkeypatch.setattr(ray_executor, "RemoteWorker", start)
    return started


def run(
    folder: Path,
    stop: StopController,
    number: int,
    script: Callable[[], Any],
    is_search: bool = False,
) -> list[str]:
    """Answer as many samples in half as many workers, to which the script happens; return what has a record."""
    from eval.execution.executors.cluster.ray_executor import RayAnswering

    config = read_config(compose_config(["system=toy", "model=offline", f"run.concurrency={number}"]))
    pending = [(Sample(f"q{n}", "?"), SampleKey(f"q{n}")) for n in range(number)]
    records = list[Record]()

    async def execute() -> None:
        hooks = SampleHooks(folder, AnswerLog(logs, lambda error: None), is_search=is_search)
        start = Start({}, None, RunInfo(run_id="r"), str(folder), (), is_search)
        answering = RayAnswering(config, RunCluster(number // 2), start, hooks, stop)

        async def answer(sample: Sample, key: SampleKey) -> Record:
            return (await answering.answer(None, sample, key, SampleContext)).record

        answered = asyncio.create_task(run_side_by_side(answer, pending, records.append, stop, number))
        try:
            await settle()
            await script()
            await asyncio.wait_for(answered, 5)
        finally:
            await answering.close()

    with RunLogs(folder) as logs:
        asyncio.run(execute())
    return [each.sample_id for each in records]


def test_an_idle_worker_gets_what_a_dead_one_had(tmp_path: Path, workers: list[ScriptedWorker]) -> None:
    async def script() -> None:
        first, second = workers
        await first.start()
        await second.start()
        await second.answer()
        await first.die()
        assert len(workers) == 3, "and the new one is not ready"
        for _ in first.given:
            await second.answer()

    assert sorted(run(tmp_path, StopController(), 4, script)) == ["q0", "q1", "q2", "q3"]
    assert workers[1].given == ["q2", "q3", "q0", "q1"]


def test_a_drained_run_gives_workers_nothing_and_keeps_what_is_in_flight(
    tmp_path: Path, workers: list[ScriptedWorker]
) -> None:
    stop = StopController(say=lambda line: None)

    async def script() -> None:
        first, second, third = workers
        await first.start()
        await second.start()
        stop.drain("enough")
        await second.die()
        await third.start()
        await first.answer()

    assert run(tmp_path, stop, 6, script) == ["q0", "q1"]
    assert [each.given for each in workers] == [["q0", "q1"], ["q2", "q3"], [], []]


def test_a_search_that_ends_itself_is_given_workers(tmp_path: Path, workers: list[ScriptedWorker]) -> None:
    stop = StopController()

    async def script() -> None:
        stop.start_nothing("enough")
        await workers[0].start()
        await workers[0].answer()

    assert run(tmp_path, stop, 2, script, is_search=True) == ["q0", "q1"]
