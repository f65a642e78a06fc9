"""Runs samples in worker processes on this machine (`executor=processes`), for runs that one core cannot keep up with.

    executor = ProcessExecutor(LocalExecutor(config, prompts, resources), config, prompts, resolved)
    run_blocking(executor.with_hooks(hooks).run(info, pending, store.write, StopController()))

The run's process hands out samples one at a time, so that no worker has a queue of its own, and is the only one that
writes the store and the call log, counts the budget, stops the run, and decides when a request may be sent. A worker
that dies loses its samples: others answer them, one at a time, with the replies that were already paid for.
"""

import asyncio
import copy
import math
import signal
import socket
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from eval.config.evaluation import EvalConfig
from eval.config.executor import ProcessesSettings
from eval.execution.executors.channel import (
    Answer,
    Answered,
    Ask,
    Cancel,
    Channel,
    Ended,
    Failed,
    Message,
    Paid,
    Permitted,
    Ready,
    Replied,
    Start,
    send_start,
)
from eval.execution.executors.contract import OnRecord, PendingSample, SampleHooks
from eval.execution.executors.local import LocalExecutor
from eval.execution.runner import build_blank_record
from eval.execution.termination import QUOTA_OR_KEY, StopController
from eval.runs.run_info import RunInfo
from mas.llm.profiles.profile import ModelProfile
from mas.llm.rate_limiter import BackoffTooLongError, Permit, RateLimiter
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.runtime.security.child_environment import build_child_environment

MAX_DEATHS = 3  # of workers with the same sample, which then is an error; or in a row at their start
_WORKER = Path(__file__).with_name("worker.py")
_CANCEL_SECONDS = 2.0  # for a worker to report what its cancelled requests have cost, and to end
_CLOSE_SECONDS = 10.0  # for a worker that has nothing left to do to close its tools


class ProcessExecutor:
    """An Executor (see `contract.py`)."""

    def __init__(
        self, local: LocalExecutor, config: EvalConfig, prompts: PromptSet | None, resolved: Mapping[str, object]
    ) -> None:
        """Take over a run.

        Args:
            local: answers a single sample, which is not worth a process.
            config: of the run, with `executor=processes`.
            prompts: of the program.
            resolved: the configuration as plain dictionaries, from which workers build the program.
        """
        self.program = local.program
        self._local, self._hooks = local, SampleHooks()
        self._config, self._prompts, self._resolved = config, prompts, resolved

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
        assert isinstance(self._config.executor, ProcessesSettings)
        path = tuple(sys.path)
        start = Start(self._resolved, self._prompts, run_info, str(self._hooks.folder.absolute()), path)
        models = {"": self._config.model, **self._config.judges}
        profiles = {name: model for name, model in models.items() if isinstance(model, ModelProfile)}
        pool = Pool(lambda: start_process(start), start, profiles, self._hooks, deque(pending), on_record, stop)
        concurrency = min(self._config.run.concurrency, len(pending))
        n_workers = min(self._config.executor.n_workers, concurrency)
        shares = [concurrency // n_workers + (place < concurrency % n_workers) for place in range(n_workers)]
        await stop.supervise([asyncio.create_task(pool.keep_worker(share)) for share in shares])
        return None


class Host(Protocol):
    """Where a worker runs: a process of this machine, an actor of a cluster."""

    @property
    def name(self) -> str:
        """Name in the session's log."""
        ...

    async def end(self, seconds: float) -> str:
        """End the worker within so many seconds; return how it ended."""
        ...


@dataclass
class _Process:
    """A Host."""

    process: "subprocess.Popen[bytes]"

    @property
    def name(self) -> str:
        return str(self.process.pid)

    async def end(self, seconds: float) -> str:
        code = await asyncio.to_thread(_reap, self.process, seconds)
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


async def start_process(start: Start) -> tuple[Host, Channel]:
    """Start a worker process and send it its first message."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.to_thread(
            subprocess.Popen,
            [sys.executable, str(_WORKER), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=build_child_environment("*"),  # as in this process: the program under test may read any variable
        )
    await asyncio.to_thread(send_start, ours, start)
    return _Process(process), await Channel.open(ours)


@dataclass
class _Worker:
    """A worker, its samples, and its requests that wait for their turn or were sent."""

    host: Host
    channel: Channel
    samples: dict[SampleKey, tuple[PendingSample, SampleContext]] = field(default_factory=dict)
    waiting: dict[int, "asyncio.Task[None]"] = field(default_factory=dict)
    permits: dict[int, Permit] = field(default_factory=dict)
    is_ready: bool = False
    is_alone: bool = False  # its sample is answered alone
    how_it_ended: str = ""

    async def end(self, seconds: float) -> None:
        """End the worker within so many seconds, and its requests."""
        await self.channel.close()
        self.release()
        self.how_it_ended = await self.host.end(seconds)

    def release(self) -> None:
        """End all requests without an outcome."""
        for task in self.waiting.values():
            task.cancel()
        for permit in self.permits.values():
            with permit:
                pass
        self.permits = {}


def _reap(process: "subprocess.Popen[bytes]", seconds: float) -> int:
    with suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    process.kill()
    return process.wait()


@dataclass
class Pool:
    """The samples of a run and the workers that answer them."""

    start_worker: Callable[[], Awaitable[tuple[Host, Channel]]]
    start: Start
    profiles: Mapping[str, ModelProfile]  # models under test and judges, by the name in `Ask`
    hooks: SampleHooks
    queue: deque[PendingSample]
    on_record: OnRecord
    stop: StopController
    suspects: deque[PendingSample] = field(default_factory=deque)  # a worker died with them
    deaths: Counter[SampleKey] = field(default_factory=Counter)
    failed_starts: int = 0  # of workers, in a row

    async def keep_worker(self, share: int) -> None:
        """Answer samples in a process, and in a new one each time that it dies, until none is left.

        Args:
            share: samples at once.
        """
        while (self.queue or self.suspects) and self.stop.reason is None:
            worker, close_seconds = _Worker(*await self.start_worker()), _CLOSE_SECONDS
            try:
                await self._serve(worker, share)
            except asyncio.CancelledError:
                close_seconds = _CANCEL_SECONDS
                await self._cancel(worker)
                raise
            finally:
                await worker.end(close_seconds)
            if worker.samples or not worker.is_ready:
                self._take_back(worker)

    async def _serve(self, worker: _Worker, share: int) -> None:
        """Handle what the worker sends until it has nothing left to do, or has died."""
        async for message in worker.channel:
            self._handle(worker, message)
            if worker.is_ready:
                self._hand_out(worker, share)
                if not worker.samples:
                    return

    def _hand_out(self, worker: _Worker, share: int) -> None:
        """Give the worker samples up to its share; one that a worker died with is answered alone."""
        if self.suspects and not worker.samples and self.stop.reason is None:
            self._give(worker, self.suspects.popleft())
            worker.is_alone = True
        elif not worker.samples:
            worker.is_alone = False
        while self.queue and self.stop.reason is None and len(worker.samples) < share and not worker.is_alone:
            self._give(worker, self.queue.popleft())

    def _give(self, worker: _Worker, pending: PendingSample) -> None:
        sample, key = pending
        worker.samples[key] = (pending, self.hooks.open_context(key))
        worker.channel.send(Answer(sample, key, dict(self.hooks.read_replies(key))))

    def _handle(self, worker: _Worker, message: Message) -> None:
        match message:
            case Ready():
                worker.is_ready, self.failed_starts = True, 0
                self.hooks.note("worker ready", worker=worker.host.name)
            case Failed() if worker.is_ready:
                self.stop.stop_now(message.message, "storage")
            case Failed():
                self.stop.stop_now(f"a worker process cannot answer: {message.message}", "errors")
            case Ask():
                worker.waiting[message.number] = asyncio.create_task(self._permit(worker, message))
            case Ended():
                _end_request(worker, message)
            case Paid() if message.key in worker.samples:
                worker.samples[message.key][1].budget.settle(message.payment)
            case Replied() if message.key in worker.samples:
                if (replies := worker.samples[message.key][1].call_log) is not None:
                    replies.put(message.request, message.reply)
            case Answered():
                self._keep(worker, message)

    def _keep(self, worker: _Worker, message: Answered) -> None:
        record = message.record
        if worker.samples.pop(SampleKey(record.sample_id, record.epoch, record.attempt), None) is None:
            return
        if record.error_class != QUOTA_OR_KEY:
            self.on_record(record)
        self.stop.observe(record)

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
        """Let another worker answer the samples of one that died; an error for those that had several."""
        how = worker.how_it_ended
        self.hooks.note("worker died", worker=worker.host.name, how=how, unfinished=len(worker.samples))
        self.failed_starts += not worker.is_ready
        if self.failed_starts >= MAX_DEATHS:
            self.stop.stop_now(f"{MAX_DEATHS} worker processes in a row ended while they started ({how})", "errors")
        for pending, _ in worker.samples.values():
            sample, key = pending
            self.deaths[key] += 1
            if self.deaths[key] < MAX_DEATHS:
                self.suspects.append(pending)
                continue
            record = build_blank_record(self.start.run_info.run_id, sample, key, thread_id="")
            record.error = f"the worker process ended {MAX_DEATHS} times while it answered this question ({how})"
            record.error_class, record.error_component = "internal", "worker"
            self.on_record(record)
            self.stop.observe(record)


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
