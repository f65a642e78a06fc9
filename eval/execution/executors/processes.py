"""Runs samples in workers: processes of this machine (`executor=processes`), or actors of a cluster (`executor=ray`).

    with open_place(config, resolved, samples) as place:         # `places.py`
        executor = WorkersExecutor(LocalExecutor(config, prompts, resources), config, prompts, resolved, place)
        run_blocking(executor.with_hooks(hooks).run(info, pending, store.write, StopController()))

The run's process hands out samples one at a time, so that no worker has a queue of its own, and is the only one that
writes the store and the call log, counts the budget, stops the run, and decides when a request may be sent. A worker
that dies loses its samples: others answer them, one at a time, with the replies that were already paid for.
"""

import asyncio
import copy
import math
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from eval.config.evaluation import EvalConfig
from eval.execution.executors.channel import (
    Answer,
    Answered,
    Ask,
    Cancel,
    Channel,
    Ended,
    Failed,
    Logged,
    Lost,
    Message,
    Paid,
    Permitted,
    Prompts,
    Ready,
    Replied,
    Reserve,
    Reserved,
    Start,
    identify_folder,
)
from eval.execution.executors.contract import Host, OnRecord, PendingSample, Place, SampleHooks
from eval.execution.executors.local import LocalExecutor
from eval.execution.runner import build_blank_record
from eval.execution.termination import QUOTA_OR_KEY, StopController
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.llm.profiles.profile import ModelProfile
from mas.llm.rate_limiter import BackoffTooLongError, Permit, RateLimiter
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey, use_context

MAX_DEATHS = 3  # of workers with one sample alone, which then is an error; or in a row at their start
_CANCEL_SECONDS = 2.0  # for a worker to report what its cancelled requests have cost, and to end
_CLOSE_SECONDS = 10.0  # for a worker that has nothing left to do to close its tools


class WorkersExecutor:
    """An Executor (see `contract.py`)."""

    def __init__(
        self,
        local: LocalExecutor,
        config: EvalConfig,
        prompts: PromptSet | None,
        resolved: Mapping[str, object],
        place: Place,
        n_runs: int = 1,
    ) -> None:
        """Take over a run.

        Args:
            local: answers a single sample, which is not worth a worker.
            config: of the run.
            prompts: of the program.
            resolved: the configuration as plain dictionaries, from which workers build the program.
            place: where the workers run.
            n_runs: that share the place at the same time.
        """
        self.program = local.program
        self._local, self._hooks = local, SampleHooks()
        self._config, self._prompts, self._resolved = config, prompts, resolved
        self._place, self._n_runs = place, n_runs

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
        folder = str(self._hooks.folder.absolute())
        start = describe_start(self._resolved, self._prompts, run_info, folder, self._hooks.asks_budget)

        def keep(record: Record, calls: bytes) -> None:
            if record.error_class != QUOTA_OR_KEY:
                on_record(record)
            stop.observe(record)

        jobs = deque(Job(each, self._hooks.open_context, self._hooks.read_replies, keep) for each in pending)
        pool = Pool(self._place, start, list_profiles(self._config), self._hooks, stop, jobs)
        n_workers = max(1, self._place.n_workers // self._n_runs)
        shares = divide(min(self._config.run.concurrency, len(pending)), n_workers)
        with stop.in_flight(pool.refuse_requests):
            await stop.supervise([asyncio.create_task(pool.keep_worker(share)) for share in shares])
        return None


def describe_start(
    resolved: Mapping[str, object], prompts: PromptSet | None, run_info: RunInfo, folder: str, asks_budget: bool
) -> Start:
    """Return the first message to the workers of a run, as one on this machine needs it."""
    return Start(resolved, prompts, run_info, folder, tuple(sys.path), asks_budget, identify_folder(folder))


def list_profiles(config: EvalConfig) -> dict[str, ModelProfile]:
    """Return the models under test and the judges that have a rate limiter, by the name in `Ask`."""
    models = {"": config.model, **config.judges}
    return {name: model for name, model in models.items() if isinstance(model, ModelProfile)}


def divide(concurrency: int, n_workers: int) -> list[int]:
    """Return how many samples each worker answers at once; there are no more workers than samples."""
    n_workers = min(n_workers, concurrency)
    return [concurrency // n_workers + (place < concurrency % n_workers) for place in range(n_workers)]


@dataclass(eq=False, slots=True)
class Job:
    """A sample that some worker is to answer."""

    pending: PendingSample
    open_context: Callable[[SampleKey], SampleContext]  # its budget and its call log
    read_replies: Callable[[SampleKey], Mapping[str, str]]  # that were kept for it
    finish: Callable[[Record, bytes], None]  # called with its record, and the calls of a trial
    prompts: tuple[str, PromptSet] | None = None  # of a trial, with their digest
    deaths: int = 0  # of workers that had it alone


@dataclass
class _Lease:
    """A sample that a worker answers."""

    job: Job
    context: SampleContext
    reserved: int = 0  # requests in the run's budget

    def reserve(self, number: int) -> Reserved:
        """Reserve a request; the answer tells the worker whether the budget has refused it."""
        self.context.server_refusal = None
        try:
            with use_context(self.context):
                self.context.budget.reserve()
        except LimitReachedError as error:
            return Reserved(number, error.limit, str(error), self.context.server_refusal)
        self.reserved += 1
        return Reserved(number)

    def settle(self, payment: Payment | None) -> None:
        self.reserved -= self.reserved > 0
        self.context.budget.settle(payment)

    def release(self) -> None:
        """Release requests whose outcome nobody will report."""
        while self.reserved:
            self.settle(None)


@dataclass(eq=False)
class _Worker:
    """A worker, its samples, and its requests that wait for their turn or were sent."""

    host: Host
    channel: Channel
    share: int  # samples at once
    leases: dict[int, _Lease] = field(default_factory=dict)  # by number
    prompts: set[str] = field(default_factory=set)  # digests of those that it has
    waiting: dict[int, "asyncio.Task[None]"] = field(default_factory=dict)
    permits: dict[int, Permit] = field(default_factory=dict)
    is_ready: bool = False
    is_alone: bool = False  # its sample is answered alone
    is_needless: bool = False  # nothing is left for it, and it has not even started
    how_it_ended: str = ""

    async def end(self, seconds: float) -> None:
        """End the worker within so many seconds, and its requests."""
        await self.channel.close()
        self.release()
        self.how_it_ended = await self.host.end(seconds) or self.how_it_ended or "its connection was lost"

    def release(self) -> None:
        """End all requests without an outcome."""
        for task in self.waiting.values():
            task.cancel()
        for permit in self.permits.values():
            with permit:
                pass
        for lease in self.leases.values():
            lease.release()
        self.permits = {}


@dataclass
class Pool:
    """The samples of a run and the workers that answer them. Used on one event loop."""

    place: Place
    start: Start
    profiles: Mapping[str, ModelProfile]  # models under test and judges, by the name in `Ask`
    hooks: SampleHooks  # of the session: its notes
    stop: StopController
    queue: deque[Job] = field(default_factory=deque)
    is_open: bool = False  # more samples may come (`submit`), also after `stop`, which then ends by `close`
    suspects: deque[Job] = field(default_factory=deque)  # a worker died with them
    workers: list[_Worker] = field(default_factory=list)
    failed_starts: int = 0  # of workers, in a row
    n_leases: int = 0  # so far
    refuses_requests: bool = False  # none is sent any longer

    def submit(self, job: Job) -> None:
        """Add a sample, for the worker that has the fewest."""
        self.queue.append(job)
        if ready := [each for each in self.workers if each.is_ready]:
            self._hand_out(min(ready, key=lambda each: len(each.leases) / each.share))

    def refuse_requests(self) -> None:
        """Let no request be sent that has not had its turn yet: the workers are cancelled next."""
        self.refuses_requests = True

    async def keep_worker(self, share: int) -> None:
        """Answer samples in a process, and in a new one each time that it dies, until none is left.

        Args:
            share: samples at once.
        """
        while self.is_open or ((self.queue or self.suspects) and self.stop.reason is None):
            try:
                worker, close_seconds = _Worker(*await self.place.start_worker(self.start), share), _CLOSE_SECONDS
            except UserError as error:  # the cluster has ended
                return self.stop.stop_now(str(error), "errors")
            self.workers.append(worker)
            try:
                await self._serve(worker)
            except asyncio.CancelledError:
                close_seconds = _CANCEL_SECONDS
                await self._cancel(worker)
                raise
            finally:
                self.workers.remove(worker)
                await worker.end(close_seconds)
            if worker.leases or not (worker.is_ready or worker.is_needless) or self.is_open:
                self._take_back(worker)
        return self._end_needless_starts()

    def _end_needless_starts(self) -> None:
        """End workers that are still starting when nothing is left for them: a cluster may be full for hours."""
        if not any(worker.leases for worker in self.workers) and (self.stop.reason or not self.queue):
            for worker in self.workers:
                if not worker.is_ready and not self.suspects:
                    worker.is_needless = True
                    worker.channel.abandon()

    async def _serve(self, worker: _Worker) -> None:
        """Handle what the worker sends until it has nothing left to do, or has died."""
        async for message in worker.channel:
            self._handle(worker, message)
            if worker.is_ready:
                self._hand_out(worker)
                if not worker.leases and not self.is_open:
                    return

    def _hand_out(self, worker: _Worker) -> None:
        """Give the worker samples up to its share; one that a worker died with is answered alone."""
        if self.stop.reason is not None and not self.is_open:
            return
        if self.suspects and not worker.leases:
            self._give(worker, self.suspects.popleft())
            worker.is_alone = True
        elif not worker.leases:
            worker.is_alone = False
        while self.queue and len(worker.leases) < worker.share and not worker.is_alone:
            self._give(worker, self.queue.popleft())

    def _give(self, worker: _Worker, job: Job) -> None:
        sample, key = job.pending
        digest, prompts = job.prompts or (None, None)
        if digest is not None and prompts is not None and digest not in worker.prompts:
            worker.prompts.add(digest)
            worker.channel.send(Prompts(digest, prompts))
        self.n_leases += 1
        worker.leases[self.n_leases] = _Lease(job, job.open_context(key))
        worker.channel.send(Answer(self.n_leases, self.place.move(sample), key, dict(job.read_replies(key)), digest))

    def _handle(self, worker: _Worker, message: Message) -> None:
        match message:
            case Ready():
                worker.is_ready, self.failed_starts = True, 0
                self.hooks.note("worker ready", worker=worker.host.name, pid=message.pid, host=message.host)
            case Failed() if worker.is_ready:
                self.stop.stop_now(message.message, "storage")
            case Failed():
                self.stop.stop_now(f"a worker process cannot answer: {message.message}", "errors")
            case Ask():
                worker.waiting[message.number] = asyncio.create_task(self._permit(worker, message))
            case Ended():
                _end_request(worker, message)
            case Reserve() if (lease := worker.leases.get(message.lease)) is not None:
                worker.channel.send(lease.reserve(message.number))
            case Paid() if (lease := worker.leases.get(message.lease)) is not None:
                lease.settle(message.payment)
            case Replied() if (lease := worker.leases.get(message.lease)) is not None:
                if (replies := lease.context.call_log) is not None:
                    replies.put(message.request, message.reply)
            case Answered() if (lease := worker.leases.pop(message.lease, None)) is not None:
                lease.release()
                lease.job.finish(message.record, message.calls)
            case Logged():
                self.hooks.log(message.name, message.text)
            case Lost():
                worker.how_it_ended = message.how

    async def _permit(self, worker: _Worker, ask: Ask) -> None:
        """Let a request wait for its turn in the rate limiter of its server."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ask.patience_seconds
        limiter: RateLimiter = self.profiles[ask.model].get_rate_limiter(ask.server)
        try:
            permit = await limiter.acquire(ask.tokens, lambda: math.inf if until == math.inf else until - loop.time())
        except BackoffTooLongError as error:
            worker.channel.send(Permitted(ask.number, error.seconds))
        else:
            if self.refuses_requests:
                with permit:
                    return
            worker.permits[ask.number] = permit
            worker.channel.send(Permitted(ask.number))
        finally:
            worker.waiting.pop(ask.number, None)

    async def _cancel(self, worker: _Worker) -> None:
        """Break off what the worker has in flight, and count what it has cost."""
        worker.channel.send(Cancel())
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                async for message in worker.channel:
                    if isinstance(message, Paid | Replied | Ended):
                        self._handle(worker, message)

    def _take_back(self, worker: _Worker) -> None:
        """Let another worker answer the samples of one that died; an error for one that had several alone."""
        how = worker.how_it_ended
        self.hooks.note("worker died", worker=worker.host.name, how=how, unfinished=len(worker.leases))
        self.failed_starts += not worker.is_ready
        if self.failed_starts > MAX_DEATHS + len(self.workers):  # a machine that dies takes all that start there
            self.stop.stop_now(f"{self.failed_starts} workers in a row ended while they started ({how})", "errors")
        for lease in worker.leases.values():
            job, (sample, key) = lease.job, lease.job.pending
            job.deaths += len(worker.leases) == 1  # among several it may be any other's fault
            if job.deaths < MAX_DEATHS:
                self.suspects.append(job)
                continue
            record = build_blank_record(self.start.run_info.run_id, sample, key, thread_id="")
            record.error = f"the worker process ended {MAX_DEATHS} times while it answered this question alone ({how})"
            record.error_class, record.error_component = "internal", "worker"
            job.finish(record, b"")


def _end_request(worker: _Worker, ended: Ended) -> None:
    if (task := worker.waiting.pop(ended.number, None)) is not None:
        task.cancel()
    if (permit := worker.permits.pop(ended.number, None)) is None:
        return
    with permit:
        if ended.outcome == "success":
            permit.record_success()
        elif ended.outcome == "rate_limit":
            permit.record_rate_limit(ended.retry_after_seconds)
        elif ended.outcome == "server_error":
            permit.record_server_error()
