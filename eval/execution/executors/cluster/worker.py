"""Actor of a Ray cluster that builds the program of a run and answers the samples that it is given.

Records, replies and payments go to the run's process, which alone writes the store and keeps the budget. They are
messages that `collect` returns: the name of a method of `RemoteWorker`, and its arguments. A worker of this machine
adds its lines to the run's logs itself; others have none.
"""

import asyncio
import functools
import os
import queue
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import dspy
from omegaconf import OmegaConf
from ray import cloudpickle

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import read_config
from eval.execution.executors.local import create_answering, relax_gc
from eval.runs.logs import RunLogs
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, digest
from mas.runtime.errors import UserError
from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey
from mas.system import Program

_GATHER_SECONDS = 0.02  # in which messages are gathered: a call of Ray takes a millisecond of CPU time

Message = tuple[str, tuple[Any, ...]]
Refusal = tuple[str, str]  # of a request by the run's budget: the limit, and a sentence


@dataclass(frozen=True)
class Start:
    config: Mapping[str, object]  # resolved; secrets are in the environment
    limits: Mapping[str, dict[str, object]]  # its share of what servers take: fields of a judge; "": of the run's model
    prompts: PromptSet | None
    run_info: RunInfo
    folder: str  # of the run
    path: tuple[str, ...]  # where modules are found; empty: the worker is elsewhere, with files that came with the run


class WorkerActor:
    """Worker of a run. Ray calls `collect` in a thread of its own.

    None of the methods is a coroutine: Ray would call all of them on an event loop of its own.
    """

    def __init__(self) -> None:
        for each in (signal.SIGINT, signal.SIGHUP):  # Ctrl-C reaches all processes: the run's decides what it means
            signal.signal(each, signal.SIG_IGN)
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()  # None: nothing will follow

    def build(self, start: Start) -> tuple[int, str] | str:
        """Build the program; return the process and its host, or why no worker can build it."""
        try:
            self._worker = _Worker(start, lambda name, *arguments: self._outbox.put((name, arguments)))
        except Exception as error:  # noqa: BLE001  the run's process reports it
            return str(error) if isinstance(error, UserError) else traceback.format_exception_only(error)[-1].strip()
        return os.getpid(), socket.gethostname()

    def answer(self, *arguments: Any) -> None:
        background_loop().call_soon_threadsafe(self._worker.begin, *arguments)

    def grant(self, request: int, refusal: Refusal | None) -> None:
        self._worker.grant(request, refusal)

    def close(self) -> None:
        """Break off what is in flight and close what the program uses; then `collect` has no more messages."""
        try:
            run_blocking(self._worker.cancel())
            self._worker.stack.close()
        finally:
            self._outbox.put(None)

    def collect(self) -> list[Message]:
        """Wait for messages to the run's process, and return all that there are; none once `close` has ended."""
        messages: list[Message] = []
        while not messages or not self._outbox.empty():
            if (message := self._outbox.get()) is None:
                self._outbox.put(None)
                break
            messages.append(message)
            if len(messages) == 1:
                time.sleep(_GATHER_SECONDS)
        return messages


class _Worker:
    def __init__(self, start: Start, send: Callable[..., None]) -> None:
        if start.path:
            sys.path[:] = start.path
        self._send, self.stack, logs = send, ExitStack(), None
        self._config = config = read_config(OmegaConf.create(dict(start.config)))
        if start.path:
            logs = self.stack.enter_context(RunLogs(Path(start.folder), config.secrets(), config.log.level))
        else:
            config.check_model()  # its key is in the environment of that machine, or is not
        for name, model in {"": config.model, **config.judges}.items():
            vars(model).update(start.limits[name])
        resources = self.stack.enter_context(config.system.open_resources(config.tools, lambda line: None))
        self._is_search = start.run_info.tuning is not None
        self._asks_budget = self._is_search or config.run.max_cost_usd is not None
        self.stack.enter_context(relax_gc())
        self._program = config.system.build(config.model, start.prompts, resources)
        self._answering = create_answering(config, self._program, start.prompts, start.run_info, logs)
        self._programs: dict[str, Program] = {}  # of trials, by digest of the prompts
        self._tasks: set[asyncio.Task[None]] = set()  # a sample each
        self._requests, self._waiting = count(), dict[int, Future[Refusal | None]]()  # for `grant`

    def begin(self, *arguments: Any) -> None:
        self._tasks.add(task := asyncio.create_task(self._answer(*arguments)))
        task.add_done_callback(self._tasks.discard)

    def grant(self, request: int, refusal: Refusal | None) -> None:
        with suppress(InvalidStateError):  # its sample is cancelled
            self._waiting.pop(request).set_result(refusal)

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(
        self, number: int, sample: Sample, key: SampleKey, replies: dict[str, str], prompts: PromptSet | None
    ) -> None:
        """Answer the sample with this number in messages, with the replies that were paid for earlier.

        `prompts`: of the program; None: those of the run.
        """
        if sample.file is not None:  # of another machine: within the files that came with the program
            sample = replace(sample, file=sample.file.absolute())
        link = _SampleLink(number, self._send, replies, self._asks_budget)
        program = None if prompts is None else self._build_program(prompts)
        with dspy.context(disable_history=True):
            trial = await self._answering.answer(program, sample, key, functools.partial(self._open_context, link))
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # and the program ignored it
            return
        # Predictions are sent without DSPy's own parts, which cannot be.
        calls = [
            (name, dict(inputs), dspy.Prediction(**dict(outputs.items()))) for name, inputs, outputs in trial.calls
        ]
        try:
            packed = cloudpickle.dumps(calls)
        except Exception as error:  # noqa: BLE001  of a user's value; Ray would lose all messages with it
            self._send("fail", f"the values of a predictor cannot be sent by a worker ({error}): use executor=local")
        else:
            self._send("finish", number, trial.record, packed)

    def _open_context(self, link: "_SampleLink", key: SampleKey) -> SampleContext:
        results = link if self._is_search or self._config.cache.tools == "run" else None
        reserve = functools.partial(self._reserve, link.number) if self._asks_budget else None
        return SampleContext(key, self._config.limits, link, link, results, ask_budget=reserve)

    async def _reserve(self, number: int) -> None:
        """Wait until the run's process has reserved a request of a sample."""
        request, granted = next(self._requests), Future[Refusal | None]()
        self._waiting[request] = granted
        self._send("reserve", number, request)
        if (refusal := await asyncio.wrap_future(granted)) is not None:
            raise LimitReachedError(*refusal)

    def _build_program(self, prompts: PromptSet) -> Program:
        if (label := digest(prompts)) not in self._programs:
            self._programs[label] = self._program.deepcopy()
            apply_prompt_set(self._programs[label], prompts)
        return self._programs[label]


@dataclass(frozen=True)
class _SampleLink:
    """RunBudget and ReplyLog of a sample, whose payments and new replies are sent to the run's process."""

    number: int
    send: Callable[..., None]
    kept: dict[str, str]  # replies
    is_reserved: bool  # each request in the run's budget, so that those that cost nothing count as well

    def reserve(self) -> None:
        """Allow every request: the run's process was asked before, or the run has no budget."""

    def settle(self, payment: Payment | None) -> None:
        if self.is_reserved or (payment is not None and not payment.refused):
            self.send("pay", self.number, payment)

    def get(self, key: str) -> str | None:
        return self.kept.get(key)

    def put(self, key: str, reply: str) -> None:
        self.kept[key] = reply
        self.send("keep_reply", self.number, key, reply)
