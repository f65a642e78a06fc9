"""Runs samples in workers, which are actors of a Ray cluster (`executor=ray`).

    with open_cluster(config, resolved, samples) as cluster:
        executor = RayExecutor(LocalExecutor(config, prompts, resources), config, prompts, resolved, cluster)
        run_blocking(executor.with_hooks(hooks).run(info, pending, store.write, StopController()))

The run's process hands out samples one at a time, so that no worker has a queue of its own, and is the only one that
writes the run's files, counts the budget, stops the run, and decides when a request may be sent. A worker that dies
loses its samples: others answer them, one at a time, with the replies that were already paid for.
"""

import asyncio
import copy
import math
import pickle
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.executors.cluster.connection import RunCluster
from eval.execution.executors.cluster.messages import (
    Answer,
    Answered,
    AskTurn,
    Cancel,
    Ended,
    Failed,
    FromWorker,
    Granted,
    Logged,
    Paid,
    Ready,
    Replied,
    Reserve,
    Start,
)
from eval.execution.executors.contract import Answering, OnRecord, OpenContext, PendingSample, SampleHooks
from eval.execution.executors.local import LocalExecutor
from eval.execution.termination import QUOTA_OR_KEY, StopController
from eval.execution.traced_program import AnsweredTrial
from eval.runs.record import Record, build_blank_record
from eval.runs.run_info import RunInfo
from mas.llm.profiles.profile import ModelProfile
from mas.llm.rate_limiter import BackoffTooLongError, Permit
from mas.prompt_sets.prompt_set import PromptSet, read_applied_prompts
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey
from mas.system import Program

if TYPE_CHECKING:
    from eval.execution.executors.cluster.actors import ActorChannel

MAX_DEATHS = 3  # of workers with one sample alone, which then is an error; or in a row at their start
_CANCEL_SECONDS = 2.0  # for a worker to report what its cancelled requests have cost, and to end
_CLOSE_SECONDS = 10.0  # for a worker that has nothing left to do to close its tools


class RayExecutor:
    """An Executor (see `contract.py`)."""

    def __init__(
        self,
        local: LocalExecutor,
        config: EvalConfig,
        prompts: PromptSet | None,
        resolved: Mapping[str, object],
        cluster: RunCluster,
    ) -> None:
        """Take over a run.

        Args:
            local: answers a single sample, which is not worth a worker.
            config: of the run.
            prompts: of the program.
            resolved: the configuration as plain dictionaries, from which workers build the program.
            cluster: where the workers run.
        """
        self.program = local.program
        self._local, self._hooks = local, SampleHooks()
        self._config, self._prompts, self._resolved = config, prompts, resolved
        self._cluster = cluster

    def with_hooks(self, hooks: SampleHooks) -> Self:
        """Return an executor of the same program for one session."""
        executor = copy.copy(self)
        executor._local, executor._hooks = self._local.with_hooks(hooks), hooks
        return executor

    async def run(
        self, run_info: RunInfo, pending: Sequence[PendingSample], on_record: OnRecord, stop: StopController
    ) -> None:
        """Run the samples; see `Executor.run`."""
        if len(pending) <= 1:
            return await self._local.run(run_info, pending, on_record, stop)

        def keep(record: Record, calls: bytes) -> None:
            if record.error_class != QUOTA_OR_KEY:
                on_record(record)
            stop.observe(record)

        hooks, config = self._hooks, self._config
        start = describe_start(self._resolved, self._prompts, run_info, hooks)
        workers = Workers(self._cluster, start, list_profiles(config), hooks, stop)
        workers.queue.extend(Job(*each, hooks.open_context, hooks.read_replies, keep) for each in pending)
        keepers = workers.open(min(config.run.concurrency, len(pending)), self._cluster.n_workers)
        with stop.in_flight(workers.refuse_requests):
            await stop.supervise(keepers)
        return None

    def open_answering(self, run_info: RunInfo, stop: StopController) -> Answering:
        """Return what answers single samples; see `Executor.open_answering`."""
        assert self._prompts is not None, "a search has prompts to start from"
        resolved = {**self._resolved, "cache": {"tools": "off"}}  # results are kept among the replies
        start = describe_start(resolved, self._prompts, run_info, self._hooks)
        return WorkerAnswering(self._cluster, start, self._config, self._prompts, self._hooks, stop)


@dataclass(eq=False)
class WorkerAnswering:
    """An Answering (see `contract.py`) by workers that are started with the first sample."""

    cluster: RunCluster
    start: Start
    config: EvalConfig
    prompts: PromptSet  # of the run
    hooks: SampleHooks
    stop: StopController
    _workers: "Workers | None" = None
    _keepers: list["asyncio.Task[None]"] = field(default_factory=list)
    _waiting: set["asyncio.Future[AnsweredTrial]"] = field(default_factory=set)

    async def answer(
        self, program: Program, sample: Sample, sample_key: SampleKey, open_context: OpenContext
    ) -> AnsweredTrial:
        waiting: asyncio.Future[AnsweredTrial] = asyncio.get_running_loop().create_future()

        def open_begun(key: SampleKey) -> SampleContext:
            context = open_context(key)
            context.read_start_time()  # kept with the replies: the same one in every worker
            return context

        def finish(record: Record, calls: bytes) -> None:
            if not waiting.done():
                waiting.set_result(AnsweredTrial(record, pickle.loads(calls) if calls else []))

        prompts, workers = read_applied_prompts(program, self.prompts), self._open()
        self._waiting.add(waiting)
        workers.submit(Job(sample, sample_key, open_begun, self.hooks.read_replies, finish, prompts))
        try:
            return await waiting
        except asyncio.CancelledError:
            await self.close()  # the whole session ends: single samples are not cancelled
            raise
        finally:
            self._waiting.discard(waiting)

    async def close(self) -> None:
        keepers, self._keepers, self._workers = self._keepers, [], None
        for task in keepers:
            task.cancel()
        if keepers:
            await asyncio.wait(keepers)
        for waiting in self._waiting:
            waiting.cancel()

    def _open(self) -> "Workers":
        if self._workers is None:
            profiles = list_profiles(self.config)
            self._workers = Workers(self.cluster, self.start, profiles, self.hooks, self.stop, takes_more=True)
            self._keepers = self._workers.open(self.config.run.concurrency, self.cluster.n_workers)
            for task in self._keepers:
                task.add_done_callback(self._note_end)
        return self._workers

    def _note_end(self, keeper: "asyncio.Task[None]") -> None:
        if keeper.cancelled():
            return
        if (error := keeper.exception()) is not None:
            self.stop.stop_now(f"workers cannot be kept: {error}", "errors")
        for waiting in self._waiting:
            waiting.cancel()


def describe_start(
    resolved: Mapping[str, object], prompts: PromptSet | None, run_info: RunInfo, hooks: SampleHooks
) -> Start:
    """Return the first message to the workers of a run, as one on this machine needs it."""
    folder = hooks.folder.absolute()
    return Start(resolved, prompts, run_info, str(folder), tuple(sys.path), hooks.asks_budget, folder.name)


def list_profiles(config: EvalConfig) -> dict[str, ModelProfile]:
    """Return the models under test and the judges that have a rate limiter, by the name in `AskTurn`."""
    models = {"": config.model, **config.judges}
    return {name: model for name, model in models.items() if isinstance(model, ModelProfile)}


@dataclass(eq=False)
class Job:
    """A sample that some worker is to answer."""

    sample: Sample
    key: SampleKey
    open_context: Callable[[SampleKey], SampleContext]  # its budget and its call log
    read_replies: Callable[[SampleKey], Mapping[str, str]]  # that were kept for it
    finish: Callable[[Record, bytes], None]  # called with its record, and the calls of a trial
    prompts: PromptSet | None = None  # of a trial
    deaths: int = 0  # of workers that had it alone
    context: SampleContext = field(init=False)  # while a worker has it
    reserved: int = 0  # requests in the run's budget

    def reserve(self, number: int) -> Granted:
        """Reserve a request; the answer tells the worker whether the budget has refused it."""
        try:
            self.context.budget.reserve()
        except LimitReachedError as error:
            return Granted(number, error.limit, str(error))
        self.reserved += 1
        return Granted(number)

    def settle(self, payment: Payment | None) -> None:
        self.reserved -= self.reserved > 0
        self.context.budget.settle(payment)

    def release(self) -> None:
        """Release requests whose outcome no worker will report."""
        while self.reserved:
            self.settle(None)


@dataclass(eq=False)
class _Worker:
    """A worker, its samples, and its requests that wait for their turn or were sent."""

    name: str  # in the session's log
    channel: "ActorChannel"
    share: int  # samples at once
    keeper: "asyncio.Task[None] | None"
    leases: dict[int, Job] = field(default_factory=dict)  # by number
    waiting: dict[int, "asyncio.Task[None]"] = field(default_factory=dict)
    permits: dict[int, Permit] = field(default_factory=dict)
    is_ready: bool = False
    is_alone: bool = False  # its sample is answered alone

    def release(self) -> None:
        """End all requests without an outcome."""
        for task in self.waiting.values():
            task.cancel()
        for permit in self.permits.values():
            with permit:
                pass
        for job in self.leases.values():
            job.release()
        self.permits = {}

    def end_request(self, ended: Ended) -> None:
        if (task := self.waiting.pop(ended.number, None)) is not None:
            task.cancel()
        if (permit := self.permits.pop(ended.number, None)) is None:
            return
        with permit:
            if ended.outcome == "success":
                permit.record_success()
            elif ended.outcome == "rate_limit":
                permit.record_rate_limit(ended.retry_after_seconds)
            elif ended.outcome == "server_error":
                permit.record_server_error()


@dataclass
class Workers:
    """The workers of a run and the samples that they answer. Used on one event loop."""

    cluster: RunCluster
    start: Start
    profiles: Mapping[str, ModelProfile]  # models under test and judges, by the name in `AskTurn`
    hooks: SampleHooks  # of the session: its notes and logs
    stop: StopController
    takes_more: bool = False  # samples may come later (`submit`), also after `stop`: it ends by cancelling its tasks
    queue: deque[Job] = field(default_factory=deque)
    _suspects: deque[Job] = field(default_factory=deque)  # a worker died with them
    _workers: list[_Worker] = field(default_factory=list)
    _failed_starts: int = 0  # of workers, in a row
    _n_started: int = 0
    _n_leases: int = 0
    _refuses_requests: bool = False

    def open(self, concurrency: int, n_workers: int) -> list["asyncio.Task[None]"]:
        """Return tasks that keep so many workers, which answer `concurrency` samples at once together."""
        n_workers = max(1, min(n_workers, concurrency))
        shares = [concurrency // n_workers + (place < concurrency % n_workers) for place in range(n_workers)]
        return [asyncio.create_task(self._keep_worker(share)) for share in shares]

    def submit(self, job: Job) -> None:
        """Add a sample, for the worker that has the fewest."""
        self.queue.append(job)
        if ready := [each for each in self._workers if each.is_ready]:
            self._hand_out(min(ready, key=lambda each: len(each.leases) / each.share))

    def refuse_requests(self) -> None:
        """Let no request be sent that has not had its turn yet: the workers are cancelled next."""
        self._refuses_requests = True

    async def _keep_worker(self, share: int) -> None:
        """Answer samples in a worker, and in a new one each time that it dies, until none is left."""
        while self.takes_more or ((self.queue or self._suspects) and self.stop.reason is None):
            self._n_started += 1
            name = f"actor {self._n_started}"
            worker, seconds = _Worker(name, self.cluster.start_worker(), share, asyncio.current_task()), _CLOSE_SECONDS
            self._workers.append(worker)
            try:
                await self._serve(worker)
            except asyncio.CancelledError:
                seconds = _CANCEL_SECONDS
                raise
            finally:
                self._workers.remove(worker)
                await self._end(worker, seconds)
            if worker.leases or not worker.is_ready or self.takes_more:
                self._take_back(worker)
        if not any(worker.leases for worker in self._workers):  # a cluster may have no CPU for the others for hours
            for worker in self._workers:
                if not worker.is_ready and worker.keeper is not None:
                    worker.keeper.cancel()

    async def _serve(self, worker: _Worker) -> None:
        """Handle what the worker sends until it has nothing left to do, or has died."""
        if not await worker.channel.open(self.cluster.move_start(self.start)):
            return
        while messages := await worker.channel.receive():
            for message in messages:
                self._handle(worker, message)
            if worker.is_ready:
                self._hand_out(worker)
                if not worker.leases and not self.takes_more:
                    return

    async def _end(self, worker: _Worker, seconds: float) -> None:
        """Break off what the worker has in flight, count what it has cost, and end it within so many seconds."""
        if worker.is_ready:
            worker.channel.send(Cancel())
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while messages := await worker.channel.receive():
                        for message in messages:
                            if isinstance(message, Paid | Replied | Ended | Logged):
                                self._handle(worker, message)
        worker.channel.kill()
        worker.release()

    def _hand_out(self, worker: _Worker) -> None:
        """Give the worker samples up to its share; one that a worker died with is answered alone."""
        if self.stop.reason is not None and not self.takes_more:
            return
        if not worker.leases:
            worker.is_alone = bool(self._suspects)
            if self._suspects:
                self._give(worker, self._suspects.popleft())
        while self.queue and len(worker.leases) < worker.share and not worker.is_alone:
            self._give(worker, self.queue.popleft())

    def _give(self, worker: _Worker, job: Job) -> None:
        self._n_leases += 1
        job.context = job.open_context(job.key)
        worker.leases[self._n_leases] = job
        sample, replies = self.cluster.move(job.sample), dict(job.read_replies(job.key))
        worker.channel.send(Answer(self._n_leases, sample, job.key, replies, job.prompts))

    def _handle(self, worker: _Worker, message: FromWorker) -> None:
        match message:
            case Ready():
                worker.is_ready, self._failed_starts = True, 0
                self.hooks.note("worker ready", worker=worker.name, pid=message.pid, host=message.host)
            case Failed():
                self.stop.stop_now(f"a worker cannot answer: {message.message}", "errors")
            case AskTurn():
                worker.waiting[message.number] = asyncio.create_task(self._grant(worker, message))
            case Ended():
                worker.end_request(message)
            case Logged():
                self.hooks.log(message.name, message.text)
            case Reserve() if (job := worker.leases.get(message.lease)) is not None:
                worker.channel.send(job.reserve(message.number))
            case Paid() if (job := worker.leases.get(message.lease)) is not None:
                job.settle(message.payment)
            case Replied() if (job := worker.leases.get(message.lease)) is not None:
                if (replies := job.context.call_log) is not None:
                    replies.put(message.request, message.reply)
            case Answered() if (job := worker.leases.pop(message.lease, None)) is not None:
                job.release()
                job.finish(message.record, message.calls)

    async def _grant(self, worker: _Worker, asked: AskTurn) -> None:
        """Let a request wait for its turn in the rate limiter of its server."""
        loop = asyncio.get_running_loop()
        until = loop.time() + asked.patience_seconds
        limiter = self.profiles[asked.model].get_rate_limiter(asked.server)
        try:
            permit = await limiter.acquire(asked.tokens, lambda: until if until == math.inf else until - loop.time())
        except BackoffTooLongError as error:
            worker.channel.send(Granted(asked.number, pause_seconds=error.seconds))
        else:
            if self._refuses_requests:
                with permit:
                    return
            worker.permits[asked.number] = permit
            worker.channel.send(Granted(asked.number))
        finally:
            worker.waiting.pop(asked.number, None)

    def _take_back(self, worker: _Worker) -> None:
        """Let another worker answer the samples of one that died; an error for one that had several alone."""
        how = worker.channel.how_it_ended
        self.hooks.note("worker died", worker=worker.name, how=how, unfinished=len(worker.leases))
        self._failed_starts += not worker.is_ready
        does_any_work = any(each.is_ready for each in self._workers)
        # A machine that dies takes all that start there, hence the number of workers.
        if self._failed_starts > MAX_DEATHS + len(self._workers) and not does_any_work:
            self.stop.stop_now(f"{self._failed_starts} workers in a row ended while they started ({how})", "errors")
        for job in worker.leases.values():
            job.deaths += len(worker.leases) == 1  # among several it may be any other's fault
            if job.deaths < MAX_DEATHS:
                self._suspects.append(job)
                continue
            record = build_blank_record(self.start.run_info.run_id, job.sample, job.key, thread_id="")
            record.error = f"the worker ended {MAX_DEATHS} times while it answered this question alone ({how})"
            record.error_class, record.error_component = "internal", "worker"
            job.finish(record, b"")
