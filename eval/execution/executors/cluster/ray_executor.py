"""Answers samples in workers, which are actors of a Ray cluster (`executor=ray`).

    with open_cluster(config, resolved, samples) as cluster:
        answering = RayExecutor(program, config, prompts, resolved, cluster).open(info, hooks, stop)

The run's process hands out samples one at a time, so that no worker has a queue of its own, and is the only one that
writes the run's files, counts the budget, stops the run, and decides when a request may be sent. A worker that dies
loses its samples: others answer them, one at a time, with the replies that were already paid for.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Mapping

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.executors.cluster.connection import RunCluster
from eval.execution.executors.cluster.messages import Start
from eval.execution.executors.cluster.remote_worker import Job, RemoteWorker
from eval.execution.executors.contract import AnsweredTrial, OpenContext, SampleHooks
from eval.execution.termination import StopController
from eval.runs.record import build_blank_record
from eval.runs.run_info import RunInfo
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.prompt_sets.prompt_set import PromptSet, read_applied_prompts
from mas.runtime.sample_context import SampleKey
from mas.system import Program

MAX_DEATHS = 3  # of workers with one sample alone, which then is an error; or in a row at their start


class RayExecutor:
    """An Executor (see `contract.py`)."""

    def __init__(
        self,
        program: Program,
        config: EvalConfig,
        prompts: PromptSet | None,
        resolved: Mapping[str, object],
        cluster: RunCluster,
    ) -> None:
        """Take over a run.

        Args:
            program: as built in this process.
            config: of the run.
            prompts: of the program.
            resolved: the configuration as plain dictionaries, from which workers build the program.
            cluster: where the workers run.
        """
        self.program = program
        self._config, self._prompts, self._resolved, self._cluster = config, prompts, resolved, cluster

    def open(self, run_info: RunInfo, hooks: SampleHooks, stop: StopController) -> "RayAnswering":
        """Return what answers the samples of a session; see `Executor.open`."""
        folder, path = str(hooks.folder.absolute()), tuple(sys.path)
        start = Start(self._resolved, self._prompts, run_info, folder, path, hooks.is_search)
        return RayAnswering(self._config, self._cluster, start, hooks, stop)


class RayAnswering:
    """An Answering (see `contract.py`) by workers that are started as samples come."""

    def __init__(
        self, config: EvalConfig, cluster: RunCluster, start: Start, hooks: SampleHooks, stop: StopController
    ) -> None:
        self._cluster, self._start, self._hooks, self._stop = cluster, cluster.move_start(start), hooks, stop
        models = {"": config.model, **config.judges}
        self._profiles = {name: model for name, model in models.items() if isinstance(model, OpenAIChatModel)}
        self._n_workers = max(1, min(cluster.n_workers, config.run.concurrency))
        self._share = -(-config.run.concurrency // self._n_workers)  # samples of a worker at once
        self._jobs: set[Job] = set()  # all of them
        self._queue: deque[Job] = deque()  # no worker has them
        self._suspects: deque[Job] = deque()  # of the same, a worker died with them
        self._workers: list[RemoteWorker] = []
        self._keepers: set[asyncio.Task[None]] = set()
        self._failed_starts = 0  # of workers, in a row
        self._n_started = self._n_leases = 0

    async def answer(
        self, program: Program | None, sample: Sample, sample_key: SampleKey, open_context: OpenContext
    ) -> AnsweredTrial:
        prompts, given = None, self._start.prompts
        if program is not None and given is not None:
            prompts = read_applied_prompts(program, given)
        job = Job(sample, sample_key, open_context, prompts, asyncio.get_running_loop().create_future())
        self._jobs.add(job)
        self._queue.append(job)
        if len(self._keepers) < min(self._n_workers, len(self._jobs)):
            self._keepers.add(keeper := asyncio.create_task(self._keep_worker()))
            keeper.add_done_callback(self._note_end)
        self._hand_out()
        try:
            return await job.answered
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                await self.close()  # the whole session ends: single samples are not cancelled
            raise
        finally:
            self._jobs.discard(job)

    async def close(self) -> None:
        keepers, self._keepers = self._keepers, set()
        for task in keepers:
            task.cancel()
        if keepers:
            await asyncio.wait(keepers)
        self._queue.clear()
        self._suspects.clear()
        for job in self._jobs:
            job.answered.cancel()

    def _note_end(self, keeper: "asyncio.Task[None]") -> None:
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            self._stop.stop_now(f"workers cannot be kept: {error}")
            for job in self._jobs:
                job.answered.cancel()

    async def _keep_worker(self) -> None:
        """Answer samples in a worker, and in a new one each time that it dies, until `close`."""
        while True:
            self._n_started += 1
            worker = RemoteWorker(f"actor {self._n_started}", self._profiles, self._hooks, self._stop)
            self._workers.append(worker)
            try:
                await worker.serve(self._start, self._hand_out)
            finally:
                self._workers.remove(worker)
                await worker.end()
            self._take_back(worker)

    def _hand_out(self) -> None:
        """Give workers samples up to their share; one that a worker died with is answered alone.

        Once the run stops, those that no worker has are cancelled; a search decides itself what it still starts.
        """
        if self._stop.reason is not None and not self._hooks.is_search:
            for job in (*self._queue, *self._suspects):
                job.answered.cancel()
            self._queue.clear()
            self._suspects.clear()
        ready = [each for each in self._workers if each.is_ready]
        for worker in sorted(ready, key=lambda each: len(each.leases)):
            if not worker.leases:
                worker.is_alone = bool(self._suspects)
                if self._suspects:
                    self._give(worker, self._suspects.popleft())
            while self._queue and len(worker.leases) < self._share and not worker.is_alone:
                self._give(worker, self._queue.popleft())

    def _give(self, worker: RemoteWorker, job: Job) -> None:
        self._n_leases += 1
        worker.give(self._n_leases, job, self._cluster.move(job.sample))

    def _take_back(self, worker: RemoteWorker) -> None:
        """Let another worker answer the samples of one that died; an error for one that had several alone."""
        how = worker.how_it_ended
        self._hooks.answers.note("worker died", worker=worker.name, how=how, unfinished=len(worker.leases))
        self._failed_starts = 0 if worker.is_ready else self._failed_starts + 1
        # A machine that dies takes all that start there, hence the number of workers.
        if self._failed_starts > MAX_DEATHS + len(self._workers) and not any(each.is_ready for each in self._workers):
            self._stop.stop_now(f"{self._failed_starts} workers in a row ended while they started ({how})")
        for job in worker.leases.values():
            job.deaths += len(worker.leases) == 1  # among several it may be any other's fault
            if job.deaths < MAX_DEATHS:
                self._suspects.append(job)
            else:
                record = build_blank_record(self._start.run_info.run_id, job.sample, job.key, thread_id="")
                record.error = f"the worker ended {MAX_DEATHS} times while it answered this question alone ({how})"
                record.error_class, record.error_component = "internal", "worker"
                job.finish(AnsweredTrial(record))
        self._hand_out()  # an idle worker need not wait for a new one to be ready
