"""Answers samples in workers, which are actors of a Ray cluster (`executor=ray`).

The run's process gives samples to workers one at a time, so that no worker has a queue of its own, and is the only one
that writes the store, counts the budget and stops the run. Each worker keeps to its share of what servers allow.
A worker that dies loses its samples: others answer them, one at a time, with the replies that were already paid for.
"""

import asyncio
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import ray
from ray.exceptions import RayError

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.executors.cluster.connection import RunCluster
from eval.execution.executors.cluster.worker import Message, Start, WorkerActor
from eval.execution.executors.local import AnsweredTrial, OpenContext
from eval.execution.termination import StopController
from eval.runs.logs import RunLogs
from eval.runs.record import Record, build_blank_record
from eval.runs.run_info import RunInfo
from mas.llm.profiles.model import Model
from mas.prompt_sets.prompt_set import PromptSet, read_applied_prompts
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey
from mas.system import Program

MAX_DEATHS = 3  # of workers with one sample alone, which then is an error; or in a row at their start
START_SECONDS = 120.0  # for a node of the cluster to have a free CPU, and to start the actor
_END_SECONDS = 4.0  # for a worker to report what its cancelled requests have cost, and to close its tools


@dataclass(frozen=True)
class SampleHooks:
    folder: Path  # of the run
    logs: RunLogs
    read_replies: Callable[[SampleKey], Mapping[str, str]] = lambda key: {}  # that the call log has


def _divide_limits(model: Model, n_workers: int) -> dict[str, object]:
    """Return the fields of a model that limit its requests, as each worker has them."""
    fields: dict[str, object] = {"max_connections": model.max_connections // n_workers, "n_sharing": n_workers}
    if (rate := getattr(model, "rate", None)) is not None:
        fields["rate"] = replace(rate, **{name: limit and limit / n_workers for name, limit in vars(rate).items()})
    return fields


class RayAnswering:
    """An `Answering` by workers that are started as samples come."""

    def __init__(
        self,
        cluster: RunCluster,
        config: EvalConfig,
        prompts: PromptSet | None,
        run_info: RunInfo,
        hooks: SampleHooks,
        stop: StopController,
    ) -> None:
        """`stop` ends the session if nothing can answer."""
        models = {"": config.model, **config.judges}
        connections = [model.max_connections for model in models.values()]
        n_workers = max(1, min(cluster.n_workers, config.run.concurrency, *connections))
        self._start = Start(
            cluster.resolved,
            {name: _divide_limits(model, n_workers) for name, model in models.items()},
            prompts,
            run_info,
            str(hooks.folder.absolute()),
            tuple(sys.path) if cluster.places is None else (),
        )
        self._cluster, self._n_workers, self._hooks, self._stop = cluster, n_workers, hooks, stop
        self._share = -(-config.run.concurrency // n_workers)  # samples of a worker at once
        self._workers: list[RemoteWorker] = []
        self._keepers: set[asyncio.Task[None]] = set()
        self._turn, self._changed = asyncio.Lock(), asyncio.Event()  # set when a worker may take a sample
        self._numbers, self._failed_starts = count(1), 0  # of workers; in a row

    async def answer(
        self, program: Program | None, sample: Sample, sample_key: SampleKey, open_context: OpenContext
    ) -> AnsweredTrial:
        if len(self._keepers) < self._n_workers:
            self._keepers.add(asyncio.create_task(self._keep_worker()))
        given = self._start.prompts
        prompts = None if program is None or given is None else read_applied_prompts(program, given)
        moved, places, how = sample, self._cluster.places, ""
        if places is not None and sample.file is not None:
            moved = replace(sample, file=places[sample.file])
        for is_alone in (False, *[True] * MAX_DEATHS):  # a death with several samples may be any one's fault
            worker = await self._find_worker(is_alone)
            try:
                return await worker.answer(moved, sample_key, prompts, open_context(sample_key))
            except WorkerEndedError as error:
                how = str(error)
        record = build_blank_record(self._start.run_info.run_id, sample, sample_key, thread_id="")
        record.error = f"the worker ended {MAX_DEATHS} times while it answered this question alone ({how})"
        record.error_class, record.error_component = "internal", "worker"
        return AnsweredTrial(record)

    async def close(self) -> None:
        keepers, self._keepers = self._keepers, set()
        for task in keepers:
            task.cancel()
        if keepers:
            await asyncio.wait(keepers)
        self._changed.set()  # samples that still wait are cancelled

    async def _find_worker(self, is_alone: bool) -> "RemoteWorker":
        """Wait for the worker that is to answer a sample; `is_alone`: without others at the same time."""
        most = 0 if is_alone else self._share - 1
        async with self._turn:  # first come, first served: nobody passes a sample that waits for an idle worker
            while self._stop.reason is None and self._keepers:
                ready = (each for each in self._workers if each.is_ready and not each.is_reserved)
                free = [each for each in ready if len(each.leases) <= most]
                if free:
                    worker = min(free, key=lambda each: len(each.leases))
                    worker.is_reserved = is_alone
                    return worker
                self._changed.clear()
                await self._changed.wait()
        raise asyncio.CancelledError

    async def _keep_worker(self) -> None:
        """Have a worker, and a new one each time that it ends, until `close`."""
        try:
            while not self._stop.is_cancelled:
                worker = RemoteWorker(f"actor {next(self._numbers)}", self._hooks, self._stop)
                self._workers.append(worker)
                try:
                    await worker.serve(self._start, self._changed.set)
                finally:
                    self._workers.remove(worker)
                    n_unfinished = len(worker.leases)
                    await worker.end()
                how = worker.how_it_ended
                self._hooks.logs.note("worker died", worker=worker.name, how=how, unfinished=n_unfinished)
                self._failed_starts = 0 if worker.is_ready else self._failed_starts + 1
                if self._failed_starts > MAX_DEATHS and not any(each.is_ready for each in self._workers):
                    self._stop.stop_now(f"{self._failed_starts} workers in a row ended while they started ({how})")
        except Exception as error:  # noqa: BLE001  nobody awaits it
            self._stop.stop_now(f"workers cannot be kept: {error}")


class WorkerEndedError(Exception):
    """The worker that had a sample has ended; the message says how."""


@dataclass(eq=False)
class _Lease:
    context: SampleContext
    answered: "asyncio.Future[AnsweredTrial]"
    reserved: int = 0  # requests in the run's budget

    def settle(self, payment: Payment | None) -> None:
        self.reserved -= self.reserved > 0
        self.context.budget.settle(payment)

    def end(self) -> None:
        """Release requests whose outcome no worker will report."""
        while self.reserved:
            self.settle(None)


class RemoteWorker:
    """A worker in a new actor, as the run's process sees it. Used on one event loop."""

    how_it_ended = "the worker has ended"
    is_ready = False
    is_reserved = False  # for the one sample that it has
    _collecting: "ray.ObjectRef[list[Message]] | None" = None

    def __init__(self, name: str, hooks: SampleHooks, stop: StopController) -> None:
        """Start the actor; `name` is that in the session's log."""
        self._actor = ray.remote(num_cpus=1, max_concurrency=2, scheduling_strategy="SPREAD")(WorkerActor).remote()
        self.name, self._hooks, self._stop = name, hooks, stop
        self.leases: dict[int, _Lease] = {}
        self._numbers = count()

    async def serve(self, start: Start, note_change: Callable[[], None]) -> None:
        """Let the worker build the program, and handle its messages until it ends.

        A program that cannot be built stops the run. `note_change` is called when the worker may take a sample.
        """
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._actor.__ray_ready__.remote()
            built = await self._actor.build.remote(start)
            if isinstance(built, str):
                return self.fail(built)
            self._hooks.logs.note("worker ready", worker=self.name, pid=built[0], host=built[1])
            self.is_ready = True
            note_change()
            while await self._receive():
                note_change()
        except TimeoutError:
            self.how_it_ended = f"no node of the cluster has had a free CPU for {START_SECONDS:g} s"
        except RayError as error:
            first = str(error).strip().partition("\n")[0]
            self.how_it_ended = f"{type(error).__name__}: {first}"[:300]

    async def answer(
        self, sample: Sample, key: SampleKey, prompts: PromptSet | None, context: SampleContext
    ) -> AnsweredTrial:
        context.read_start_time()  # kept with the replies: the same one in every worker
        number = next(self._numbers)
        lease = self.leases[number] = _Lease(context, asyncio.get_running_loop().create_future())
        self._actor.answer.remote(number, sample, key, dict(self._hooks.read_replies(key)), prompts)
        return await lease.answered

    async def end(self) -> None:
        """Break off what the worker has in flight, count what it has cost, and end it."""
        if self.is_ready:
            self._actor.close.remote()
            with suppress(TimeoutError, RayError):
                async with asyncio.timeout(_END_SECONDS):
                    while await self._receive():
                        pass
        with suppress(RayError):
            ray.kill(self._actor)
        for lease in self.leases.values():
            lease.end()
            if not lease.answered.done():
                lease.answered.set_exception(WorkerEndedError(self.how_it_ended))

    async def _receive(self) -> bool:
        """Handle what the worker has sent; return False once nothing will follow. Cancelled, it loses nothing."""
        if self._collecting is None:
            self._collecting = self._actor.collect.remote()
        messages = await self._collecting
        self._collecting = None
        for name, arguments in messages:
            getattr(self, name)(*arguments)
        return bool(messages)

    # Messages of the worker, whose `number` is that of a sample

    def fail(self, reason: str) -> None:
        """Stop the run: no worker could do better."""
        self._stop.stop_now(reason)

    def reserve(self, number: int, request: int) -> None:
        """Reserve a request in the run's budget; none is granted once what is in flight is broken off."""
        if self._stop.is_cancelled or (lease := self.leases.get(number)) is None:
            return
        refusal = None
        try:
            lease.context.budget.reserve()
            lease.reserved += 1
        except LimitReachedError as error:
            refusal = (error.limit, str(error))
        self._actor.grant.remote(request, refusal)

    def pay(self, number: int, payment: Payment | None) -> None:
        """Record the cost of a request; None if it was reserved and never sent."""
        if (lease := self.leases.get(number)) is not None:
            lease.settle(payment)

    def keep_reply(self, number: int, request: str, reply: str) -> None:
        if (lease := self.leases.get(number)) is not None and lease.context.call_log is not None:
            lease.context.call_log.put(request, reply)

    def finish(self, number: int, record: Record, calls: bytes) -> None:
        self.is_reserved, lease = False, self.leases.pop(number)
        lease.end()
        if not lease.answered.done():
            lease.answered.set_result(AnsweredTrial(record, pickle.loads(calls)))
