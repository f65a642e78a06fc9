"""Actor that builds the program and answers the samples that it is given.

Records, replies, payments and lines of the logs go to the run's process, which alone writes the run's files, keeps the
budget and has the rate limiters.
"""

import asyncio
import functools
import math
import os
import pickle
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self, cast

import dspy
from omegaconf import OmegaConf

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import read_config
from eval.execution.executors.cluster.messages import Call, Calls, RunSide, Start, WorkerSide
from eval.execution.executors.local import LocalAnswering, create_runner, relax_gc
from eval.runs.call_log import SampleResults, open_shared_cache
from eval.runs.logs import AnswerLog, RunLogs
from mas.llm import BackoffTooLongError, Permit
from mas.llm.profiles.openai_chat import OpenAIChatModel, Server
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, digest
from mas.runtime.errors import UserError
from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey
from mas.system import Program

_GATHER_SECONDS = 0.02  # in which calls are gathered: a call of Ray takes a millisecond of CPU time
_MAX_PROGRAMS = 32  # kept, of trials


class WorkerActor:
    """Worker of a run. Ray calls `deliver` and `collect` in threads, one call of each at a time."""

    def __init__(self) -> None:
        for each in (signal.SIGINT, signal.SIGHUP):  # Ctrl-C reaches all processes: the run's decides what it means
            signal.signal(each, signal.SIG_IGN)
        self._inbox: asyncio.Queue[Call] = asyncio.Queue()
        self._outbox: queue.SimpleQueue[Call | None] = queue.SimpleQueue()  # None: the worker has ended

    def open(self, start: Start) -> None:
        """Begin to build the program."""
        threading.Thread(target=self._work, args=(start,), name="worker", daemon=True).start()

    def deliver(self, calls: Sequence[Call]) -> None:
        """Take calls of the run's process."""
        for call in calls:
            background_loop().call_soon_threadsafe(self._inbox.put_nowait, call)

    def collect(self) -> list[Call]:
        """Wait for calls to the run's process, and return all that there are; none: the worker has ended."""
        calls: list[Call] = []
        while not calls or not self._outbox.empty():
            if (call := self._outbox.get()) is None:
                self._outbox.put(None)
                break
            calls.append(call)
            if len(calls) == 1:
                time.sleep(_GATHER_SECONDS)
        return calls

    def _work(self, start: Start) -> None:
        run = cast(RunSide, Calls(self._outbox.put))
        try:
            with ExitStack() as stack:
                worker = _Worker(start, run, stack)
                run.begin(os.getpid(), socket.gethostname())
                run_blocking(worker.serve(self._inbox))
        except UserError as error:
            run.fail(str(error))
        except Exception:  # noqa: BLE001  # the run's process reports it
            run.fail(traceback.format_exc(limit=-3).strip().rpartition("\n")[2])
        finally:
            self._outbox.put(None)


class _Worker(WorkerSide):
    """The program and the samples in flight. Used on the agents' event loop."""

    def __init__(self, start: Start, run: RunSide, stack: ExitStack) -> None:
        """Build the program; `stack` closes what it uses."""
        if start.path:
            sys.path[:] = start.path
        self.start, self.run = start, run
        self.config = config = read_config(OmegaConf.create(dict(start.config)))
        folder = Path(start.folder)
        if not start.path:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="mas-worker-")), folder.name)
            config.check_model()  # its key is in the environment of that machine, or is not
        resources = stack.enter_context(config.system.open_resources(config.tools, lambda line: None))
        logs = RunLogs(folder, config.secrets(), config.log, lambda path: _SentLog(path.stem, run))
        self.shared_cache = stack.enter_context(open_shared_cache(config.cache))
        stack.enter_context(dspy.context(disable_history=True))
        stack.enter_context(relax_gc())
        self.questions = _Questions(run)
        for name, model in {"": config.model, **config.judges}.items():
            if isinstance(model, OpenAIChatModel):
                model.use_rate_limiters(functools.partial(_SharedLimiter, self.questions, name))
        self.program = config.system.build(config.model, start.prompts, resources)
        answers = AnswerLog(logs, lambda error: None)  # a call is always sent
        self.answering = LocalAnswering(create_runner(config, self.program, start.run_info, answers), start.prompts)
        self.programs: dict[str, Program] = {}  # of trials, by digest of the prompts
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_cancelled = False

    async def serve(self, inbox: "asyncio.Queue[Call]") -> None:
        """Handle calls up to `cancel`; payments of what is in flight then are reported."""
        while not self.is_cancelled:
            name, arguments = await inbox.get()
            getattr(self, name)(*arguments)
        if self.tasks:
            await asyncio.wait(self.tasks)

    def cancel(self) -> None:
        self.is_cancelled = True
        for task in self.tasks:
            task.cancel()

    def grant(self, number: int, limit: tuple[str, str] | None = None, pause_seconds: float | None = None) -> None:
        if (waiting := self.questions.waiting.get(number)) is not None and not waiting.done():
            waiting.set_result((limit, pause_seconds))

    def answer(
        self, lease: int, sample: Sample, key: SampleKey, replies: Mapping[str, str], prompts: PromptSet | None
    ) -> None:
        if sample.file is not None:  # of another machine: within the files that came with the program
            sample = replace(sample, file=sample.file.absolute())
        link = _SampleLink(lease, self.run, dict(replies), self.start.is_search)
        self.tasks.add(task := asyncio.create_task(self._answer(link, sample, key, prompts)))
        task.add_done_callback(self.tasks.discard)

    async def _answer(self, link: "_SampleLink", sample: Sample, key: SampleKey, prompts: PromptSet | None) -> None:
        program = None if prompts is None else self._build_program(prompts)
        trial = await self.answering.answer(program, sample, key, functools.partial(self._open_context, link))
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # and the program ignored it
            return
        # Predictions are sent without DSPy's own parts, which cannot be.
        calls = [
            (name, dict(inputs), dspy.Prediction(**dict(outputs.items()))) for name, inputs, outputs in trial.calls
        ]
        try:
            packed = pickle.dumps(calls)
        except Exception as error:  # noqa: BLE001  values of the user's own classes
            self.run.fail(f"the values of a predictor cannot be sent by a worker ({error}): use executor=local")
        else:
            self.run.finish(link.lease, trial.record, packed)

    def _open_context(self, link: "_SampleLink", key: SampleKey) -> SampleContext:
        config, is_search = self.config, self.start.is_search
        results = SampleResults(link) if is_search or config.cache.tools == "run" else None
        reserve = functools.partial(self.questions.reserve, link.lease) if is_search else None
        return SampleContext(key, config.limits, link, link, self.shared_cache, results, ask_budget=reserve)

    def _build_program(self, prompts: PromptSet) -> Program:
        if (label := digest(prompts)) not in self.programs:
            if len(self.programs) == _MAX_PROGRAMS:
                self.programs.clear()
            self.programs[label] = self.program.deepcopy()
            apply_prompt_set(self.programs[label], prompts)
        return self.programs[label]


@dataclass(frozen=True)
class _SentLog:
    """LogSink that sends the lines."""

    name: str
    run: RunSide

    def write(self, text: str) -> None:
        self.run.log(self.name, text)

    def close(self) -> None: ...


@dataclass(frozen=True)
class _SampleLink:
    """RunBudget and ReplyLog of a sample, whose payments and new replies are sent to the run's process."""

    lease: int
    run: RunSide
    kept: dict[str, str]  # replies
    sends_all: bool  # also requests that cost nothing, because each was reserved

    def reserve(self) -> None:
        """Allow every request: the run's process was asked before, or ends the run when its budget is used up."""

    def settle(self, payment: Payment | None) -> None:
        if self.sends_all or (payment is not None and not payment.refused):
            self.run.pay(self.lease, payment)

    def get(self, key: str) -> str | None:
        return self.kept.get(key)

    def put(self, key: str, reply: str) -> None:
        self.kept[key] = reply
        self.run.keep_reply(self.lease, key, reply)


Granted = tuple[tuple[str, str] | None, float | None]  # the limit, or the pause, that refuses a request


class _Questions:
    """Requests that wait for an answer of the run's process."""

    def __init__(self, run: RunSide) -> None:
        self.run, self.numbers = run, count()
        self.waiting: dict[int, asyncio.Future[Granted]] = {}

    async def ask(self, ask: Callable[..., None], number: int, *arguments: object) -> Granted:
        self.waiting[number] = asyncio.get_running_loop().create_future()
        ask(number, *arguments)
        try:
            return await self.waiting[number]
        finally:
            del self.waiting[number]

    async def reserve(self, lease: int) -> None:
        """Wait until a request of a sample is reserved.

        Raises:
            LimitReachedError: the run's budget is used up.
        """
        limit, _ = await self.ask(self.run.reserve, next(self.numbers), lease)
        if limit is not None:
            raise LimitReachedError(*limit)


@dataclass(frozen=True)
class _SharedLimiter:
    """Limiter that asks the one in the run's process, so that all workers together keep one pace."""

    questions: _Questions
    model: str  # as in `RunSide.ask_turn`
    server: Server

    async def acquire(self, tokens: int, get_patience: Callable[[], float] = lambda: math.inf) -> Permit:
        run, number = self.questions.run, next(self.questions.numbers)
        try:
            _, pause = await self.questions.ask(run.ask_turn, number, self.model, self.server, tokens, get_patience())
        except asyncio.CancelledError:
            run.end_request(number)
            raise
        if pause is not None:
            raise BackoffTooLongError(pause)
        return _SharedPermit(functools.partial(run.end_request, number))


class _SharedPermit:
    """A Permit."""

    def __init__(self, end: Callable[..., None]) -> None:
        self._end_request, self._is_open = end, True

    def record_success(self) -> None:
        self._end("record_success")

    def record_rate_limit(self, retry_after_seconds: float | None) -> None:
        self._end("record_rate_limit", retry_after_seconds)

    def record_server_error(self) -> None:
        self._end("record_server_error")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_open:
            self._end(None)

    def _end(self, outcome: str | None, *arguments: float | None) -> None:
        self._is_open = False
        self._end_request(outcome, *arguments)
