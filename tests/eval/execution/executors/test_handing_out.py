"""Which worker of a Ray cluster gets which sample, with workers that start, answer and die when a test says so."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dspy
import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from eval.execution.executors.cluster.connection import RunCluster
from eval.execution.executors.local import AnsweredTrial, run_side_by_side
from eval.execution.termination import StopController
from eval.runs.logs import RunLogs
from eval.runs.record import Record, build_blank_record
from eval.runs.run_info import RunInfo
from mas.runtime.sample_context import SampleContext, SampleKey
from tests.patience import PATIENCE_SECONDS


class ScriptedWorker:
    """A RemoteWorker without an actor."""

    def __init__(self, *arguments: object) -> None:
        self.name, self.how_it_ended = "scripted", "killed"
        self.is_ready = self.is_reserved = False
        self.leases: dict[str, asyncio.Future[AnsweredTrial]] = {}
        self.given: list[str] = []
        self.ended = asyncio.Event()

    async def serve(self, start: object, note_change: Callable[[], None]) -> None:
        self.note_change = note_change
        await self.ended.wait()

    async def answer(self, sample: Sample, *arguments: object) -> AnsweredTrial:
        self.given.append(sample.id)
        self.leases[sample.id] = asyncio.get_running_loop().create_future()
        return await self.leases[sample.id]

    async def end(self) -> None:
        from eval.execution.executors.cluster.ray_executor import WorkerEndedError

        for answered in self.leases.values():
            if not answered.done():
                answered.set_exception(WorkerEndedError("killed"))

    async def start(self) -> None:
        self.is_ready = True
        self.note_change()
        await settle()

    async def finish(self) -> None:
        for sample_id in list(self.leases):
            record = build_blank_record("r", Sample(sample_id, "?"), SampleKey(sample_id), thread_id="")
            self.leases.pop(sample_id).set_result(AnsweredTrial(record))
        self.is_reserved = False
        self.note_change()
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


def run(folder: Path, stop: StopController, number: int, script: Callable[[], Any]) -> list[Record]:
    """Answer as many samples in half as many workers, to which the script happens; return the records."""
    from eval.execution.executors.cluster.ray_executor import RayAnswering, SampleHooks

    config = read_config(compose_config(["system=toy", "model=offline", f"run.concurrency={number}"]))
    pending = [(Sample(f"q{n}", "?"), SampleKey(f"q{n}")) for n in range(number)]
    records = list[Record]()

    async def execute() -> None:
        cluster, hooks = RunCluster(number // 2, {}), SampleHooks(folder, logs)
        answering = RayAnswering(cluster, config, None, RunInfo(run_id="r"), hooks, stop)

        async def answer(sample: Sample, key: SampleKey) -> Record:
            return (await answering.answer(None, sample, key, SampleContext)).record

        answered = asyncio.create_task(run_side_by_side(answer, pending, records.append, stop, number))
        try:
            await settle()
            await script()
            await asyncio.wait_for(answered, PATIENCE_SECONDS)
        finally:
            await answering.close()

    with RunLogs(folder) as logs:
        asyncio.run(execute())
    return records


def test_an_idle_worker_gets_what_a_dead_one_had(tmp_path: Path, workers: list[ScriptedWorker]) -> None:
    async def script() -> None:
        first, second = workers
        await first.start()
        await second.start()
        await second.finish()
        await first.die()
        assert len(workers) == 3, "and the new one is not ready"
        for _ in first.given:
            await second.finish()

    assert sorted(each.sample_id for each in run(tmp_path, StopController(), 4, script)) == ["q0", "q1", "q2", "q3"]
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
        await first.finish()

    assert [each.sample_id for each in run(tmp_path, stop, 6, script)] == ["q0", "q1"]
    assert [each.given for each in workers] == [["q0", "q1"], ["q2", "q3"], [], []]


def test_a_question_that_ends_each_worker_is_an_error_and_the_others_are_not(
    tmp_path: Path, workers: list[ScriptedWorker]
) -> None:
    async def script() -> None:
        await workers[0].start()
        await workers[0].die()
        while len(workers) < 5 or workers[-1].leases:
            worker = workers[-1]
            if not worker.is_ready:
                await worker.start()
            assert len(worker.leases) == 1, "the other one waits"
            await (worker.die() if "q0" in worker.leases else worker.finish())

    errors = {each.sample_id: each.error for each in run(tmp_path, StopController(), 2, script)}
    assert errors == {"q0": "the worker ended 3 times while it answered this question alone (killed)", "q1": None}


def test_a_value_that_cannot_be_sent_stops_the_run_and_loses_no_message() -> None:
    from eval.execution.executors.cluster.worker import _Worker

    sample, key, sent = Sample("q", "?"), SampleKey("q"), list[tuple[Any, ...]]()

    async def answer(*_: object) -> AnsweredTrial:
        record = build_blank_record("r", sample, key, thread_id="")
        return AnsweredTrial(record, [("solve", {"helper": threading.Lock()}, dspy.Prediction(answer="1"))])

    worker = _Worker.__new__(_Worker)
    worker._send, worker._asks_budget = lambda *message: sent.append(message), False
    worker._answering = cast(Any, SimpleNamespace(answer=answer))
    asyncio.run(worker._answer(0, sample, key, {}, None))
    ((name, reason),) = sent
    assert name == "fail" and "lock" in reason and "use executor=local" in reason
