"""A worker in an actor of a Ray cluster, as the run's process sees it. Imported once the environment for Ray is set.

worker = RemoteWorker("actor 1", profiles, hooks, stop)
await worker.serve(start, hand_out)       # until the worker ends
await worker.end()
"""

import asyncio
import math
import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

import ray
from ray.exceptions import RayError

from eval.benchmarks.dataset import Sample
from eval.execution.executors.cluster.messages import Call, Calls, RunSide, Start, WorkerSide
from eval.execution.executors.cluster.worker import WorkerActor
from eval.execution.executors.contract import AnsweredTrial, OpenContext, SampleHooks
from eval.execution.termination import StopController
from eval.runs.record import Record
from mas.llm import BackoffTooLongError, Permit
from mas.llm.profiles.openai_chat import OpenAIChatModel, Server
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey

START_SECONDS = 120.0  # for a node of the cluster to have a free CPU, and to start the actor
_END_SECONDS = 4.0  # for a worker to report what its cancelled requests have cost, and to close its tools
_AT_END = ("pay", "keep_reply", "end_request", "log")  # calls that count while it ends


@dataclass(eq=False)
class Job:
    """A sample that some worker is to answer."""

    sample: Sample
    key: SampleKey
    open_context: OpenContext
    prompts: PromptSet | None  # of a trial
    answered: "asyncio.Future[AnsweredTrial]"
    deaths: int = 0  # of workers that had it alone
    context: SampleContext = field(init=False)  # while a worker has it
    reserved: int = 0  # requests in the run's budget

    def settle(self, payment: Payment | None) -> None:
        self.reserved -= self.reserved > 0
        self.context.budget.settle(payment)

    def release(self) -> None:
        """Release requests whose outcome no worker will report."""
        while self.reserved:
            self.settle(None)

    def finish(self, trial: AnsweredTrial) -> None:
        self.release()
        if not self.answered.done():
            self.answered.set_result(trial)


class RemoteWorker(RunSide):
    """A worker in a new actor, its samples, and its requests. Used on one event loop."""

    def __init__(
        self, name: str, profiles: Mapping[str, OpenAIChatModel], hooks: SampleHooks, stop: StopController
    ) -> None:
        """Start the actor.

        Args:
            name: in the session's log.
            profiles: with the rate limiters, by the name in `ask_turn`.
            hooks: of the session.
            stop: of the run.
        """
        options = {"num_cpus": 1, "max_restarts": 0, "max_concurrency": 2, "scheduling_strategy": "SPREAD"}
        self._actor = ray.remote(WorkerActor).options(**options).remote()
        self.name, self._profiles, self._hooks, self._stop = name, profiles, hooks, stop
        self.calls = cast(WorkerSide, Calls(self._send))
        self.how_it_ended = "the worker has ended"
        self.is_ready = False
        self.is_alone = False  # its sample is answered alone
        self.leases: dict[int, Job] = {}
        self._unsent: list[Call] = []
        self._sending: asyncio.Task[None] | None = None
        self._collecting: ray.ObjectRef[list[Call]] | None = None
        self._waiting: dict[int, asyncio.Task[None]] = {}  # requests, by number
        self._permits: dict[int, Permit] = {}

    async def serve(self, start: Start, hand_out: Callable[[], None]) -> None:
        """Handle the calls of the worker until it ends; `hand_out` gives it samples."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._actor.open.remote(start)
        except TimeoutError:
            self.how_it_ended = f"no node of the cluster has had a free CPU for {START_SECONDS:g} s"
        except RayError as error:
            self.how_it_ended = _shorten(error)
        else:
            while calls := await self._receive():
                for name, arguments in calls:
                    getattr(self, name)(*arguments)
                hand_out()

    async def end(self) -> None:
        """Break off what the worker has in flight, count what it has cost, and end it."""
        if self.is_ready:
            self.calls.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    while calls := await self._receive():
                        for name, arguments in calls:
                            if name in _AT_END:
                                getattr(self, name)(*arguments)
        if self._sending is not None:
            self._sending.cancel()
        with suppress(RayError):
            ray.kill(self._actor)
        for number in [*self._waiting, *self._permits]:
            self.end_request(number)
        for job in self.leases.values():
            job.release()

    def give(self, lease: int, job: Job, sample: Sample) -> None:
        """Let the worker answer a sample; `sample`: with the attachment where the worker has it."""
        job.context = job.open_context(job.key)
        job.context.read_start_time()  # kept with the replies: the same one in every worker
        self.leases[lease] = job
        self.calls.answer(lease, sample, job.key, dict(self._hooks.read_replies(job.key)), job.prompts)

    def _send(self, call: Call) -> None:
        """Send a call, together with others that are sent until the last ones have arrived."""
        self._unsent.append(call)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._deliver())

    async def _deliver(self) -> None:
        with suppress(RayError):  # the worker has ended: `_receive` says so
            while self._unsent:
                calls, self._unsent = self._unsent, []
                await self._actor.deliver.remote(calls)

    async def _receive(self) -> list[Call]:
        """Return what the worker has sent; nothing: it has ended. Nothing is lost if this is cancelled."""
        if self._collecting is None:
            self._collecting = self._actor.collect.remote()
        try:
            calls: list[Call] = await self._collecting
        except RayError as error:
            self.how_it_ended = _shorten(error)
            return []
        self._collecting = None
        return calls

    # Calls of the worker

    def begin(self, pid: int, host: str) -> None:
        self.is_ready = True
        self._hooks.answers.note("worker ready", worker=self.name, pid=pid, host=host)

    def fail(self, message: str) -> None:
        self._stop.stop_now(f"a worker cannot answer: {message}")

    def ask_turn(self, number: int, model: str, server: Server, tokens: int, patience_seconds: float) -> None:
        waiting = self._await_turn(number, self._profiles[model], server, tokens, patience_seconds)
        self._waiting[number] = asyncio.create_task(waiting)

    async def _await_turn(
        self, number: int, profile: OpenAIChatModel, server: Server, tokens: int, patience_seconds: float
    ) -> None:
        loop, limiter = asyncio.get_running_loop(), profile.get_rate_limiter(server)
        until = loop.time() + patience_seconds
        try:
            permit = await limiter.acquire(tokens, lambda: until if until == math.inf else until - loop.time())
        except BackoffTooLongError as error:
            self.calls.grant(number, None, error.seconds)
        else:
            if self._stop.is_cancelled:  # the worker is told next
                with permit:
                    return
            self._permits[number] = permit
            self.calls.grant(number)
        finally:
            self._waiting.pop(number, None)

    def end_request(self, number: int, outcome: str | None = None, *arguments: float | None) -> None:
        if (task := self._waiting.pop(number, None)) is not None:
            task.cancel()
        if (permit := self._permits.pop(number, None)) is not None:
            with permit:
                if outcome is not None:
                    getattr(permit, outcome)(*arguments)

    def reserve(self, number: int, lease: int) -> None:
        if (job := self.leases.get(lease)) is None:
            return
        try:
            job.context.budget.reserve()
        except LimitReachedError as error:
            self.calls.grant(number, (error.limit, str(error)))
        else:
            job.reserved += 1
            self.calls.grant(number)

    def pay(self, lease: int, payment: Payment | None) -> None:
        if (job := self.leases.get(lease)) is not None:
            job.settle(payment)

    def keep_reply(self, lease: int, request: str, reply: str) -> None:
        if (job := self.leases.get(lease)) is not None and job.context.call_log is not None:
            job.context.call_log.put(request, reply)

    def finish(self, lease: int, record: Record, calls: bytes) -> None:
        if (job := self.leases.pop(lease, None)) is not None:
            job.finish(AnsweredTrial(record, pickle.loads(calls)))

    def log(self, name: str, text: str) -> None:
        self._hooks.answers.write(name, text)


def _shorten(error: RayError) -> str:
    """Return the first line of what Ray says."""
    lines = [line.strip() for line in str(getattr(error, "cause", None) or error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
