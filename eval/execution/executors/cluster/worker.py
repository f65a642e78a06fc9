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
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import dspy
from omegaconf import OmegaConf

from eval.config.evaluation import EvalConfig, read_config
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
    ToWorker,
)
from eval.execution.executors.contract import SampleHooks
from eval.execution.executors.local import LocalAnswering, create_runner, relax_gc
from eval.execution.runner import SampleRunner
from eval.execution.traced_program import AnsweredTrial
from eval.runs.call_log import Caches, MaskedReplies, SampleResults, open_caches
from eval.runs.logs import AnswerLog, RunLogs
from mas.llm.profiles.profile import ModelProfile, Server
from mas.llm.rate_limiter import BackoffTooLongError, Permit
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, digest
from mas.runtime.errors import UserError
from mas.runtime.event_loop import background_loop, run_blocking
from mas.runtime.sample_context import LimitReachedError, Payment, ReplyLog, SampleContext
from mas.system import Program

_GATHER_SECONDS = 0.02  # in which messages are gathered: a call of Ray takes a millisecond of CPU time
_MAX_PROGRAMS = 32  # kept, of trials

Send = Callable[[FromWorker], None]  # from any thread


class WorkerActor:
    """Worker of a run. Ray calls `deliver` and `collect` in threads, one call of each at a time."""

    def __init__(self) -> None:
        for each in (signal.SIGINT, signal.SIGHUP):  # Ctrl-C reaches all processes: the run's decides what it means
            signal.signal(each, signal.SIG_IGN)
        self._inbox: asyncio.Queue[ToWorker] = asyncio.Queue()
        self._outbox: queue.SimpleQueue[FromWorker | None] = queue.SimpleQueue()

    def open(self, start: Start) -> None:
        """Begin to build the program."""
        threading.Thread(target=self._work, args=(start,), name="worker", daemon=True).start()

    def deliver(self, messages: Sequence[ToWorker]) -> None:
        """Take messages of the run's process."""
        for message in messages:
            background_loop().call_soon_threadsafe(self._inbox.put_nowait, message)

    def collect(self) -> list[FromWorker]:
        """Wait for messages, and return all that there are; none: the worker has ended."""
        messages: list[FromWorker] = []
        while not messages or not self._outbox.empty():
            if (message := self._outbox.get()) is None:
                self._outbox.put(None)
                break
            messages.append(message)
            if len(messages) == 1:
                time.sleep(_GATHER_SECONDS)
        return messages

    def _work(self, start: Start) -> None:
        try:
            _run_worker(start, self._inbox, self._outbox.put)
        except UserError as error:
            self._outbox.put(Failed(str(error)))
        except Exception:  # noqa: BLE001  # the run's process reports it
            self._outbox.put(Failed(traceback.format_exc(limit=-3).strip().rpartition("\n")[2]))
        finally:
            self._outbox.put(None)


def _run_worker(start: Start, inbox: "asyncio.Queue[ToWorker]", send: Send) -> None:
    """Answer samples until the run's process says `Cancel`."""
    if start.path:
        sys.path[:] = start.path
    config = read_config(OmegaConf.create(dict(start.config)))
    with ExitStack() as stack:
        if start.folder:
            folder = Path(start.folder)
        else:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="mas-worker-")), start.name)
            config.check_model()  # its key is in the environment of that machine, or is not
        resources = stack.enter_context(config.system.open_resources(config.tools, lambda line: None))
        logs = RunLogs(folder, config.secrets(), config.log, lambda path: _SentLog(path.stem, send))
        caches = stack.enter_context(open_caches(config.cache, folder, start.run_info.run_id, config.redact))
        stack.enter_context(dspy.context(disable_history=True))
        stack.enter_context(relax_gc())
        questions = _Questions(send)
        for name, model in {"": config.model, **config.judges}.items():
            if isinstance(model, ModelProfile):
                model.use_rate_limiters(functools.partial(_SharedLimiter, questions, name))
        program = config.system.build(config.model, start.prompts, resources)
        answers = AnswerLog(logs, lambda error: None)  # a message is always written
        runner = create_runner(config, program, start.run_info, SampleHooks(folder, open_listener=answers.begin))
        samples = _Samples(config, caches, send, questions, start.asks_budget, program, runner)
        send(Ready(os.getpid(), socket.gethostname()))
        run_blocking(samples.serve(inbox))


@dataclass(frozen=True)
class _SentLog:
    """LogSink that sends the lines."""

    name: str
    send: Send

    def write(self, text: str) -> None:
        self.send(Logged(self.name, text))

    def flush(self) -> None: ...

    def close(self) -> None: ...


@dataclass
class _Samples:
    """Samples in flight. Used on the agents' event loop."""

    config: EvalConfig
    caches: Caches
    send: Send
    questions: "_Questions"
    asks_budget: bool
    program: Program  # with the run's own prompts
    runner: SampleRunner
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    programs: OrderedDict[str, Program] = field(default_factory=OrderedDict)  # of trials: the last ones, by digest

    async def serve(self, inbox: "asyncio.Queue[ToWorker]") -> None:
        """Handle messages until the run's process breaks off; payments of what is in flight then are reported."""
        while not isinstance(message := await inbox.get(), Cancel):
            if isinstance(message, Granted):
                self.questions.answer(message)
            else:
                task = asyncio.create_task(self._answer(message))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)

    async def _answer(self, answer: Answer) -> None:
        sample = answer.sample
        if sample.file is not None:  # of another machine: within the files that came with the program
            sample = replace(sample, file=sample.file.absolute())
        replies = _Replies(answer.lease, self.send, dict(answer.replies))
        if answer.prompts is None:
            context = self._open_context(answer, replies)
            context = replace(context, shared_cache=self.caches.replies, tool_log=self.caches.results)
            record = await replace(self.runner, open_context=lambda key: context).run_sample(sample, answer.key)
            message: FromWorker = Answered(answer.lease, record)
        else:  # with its own prompts, and tool results among its replies
            masked = MaskedReplies(replies, self.config.secrets)
            context = replace(self._open_context(answer, masked), tool_log=SampleResults(masked))
            program, answering = self._build_program(answer.prompts), LocalAnswering(self.runner, answer.prompts)
            trial = await answering.answer(program, sample, answer.key, lambda key: context)
            message = _pack_trial(answer.lease, trial)
        task = asyncio.current_task()
        if task is None or not task.cancelling():  # else the program ignored it
            self.send(message)

    def _open_context(self, answer: Answer, replies: ReplyLog) -> SampleContext:
        account = _Account(answer.lease, self.send, self.asks_budget)
        ask = functools.partial(self.questions.reserve, answer.lease) if self.asks_budget else None
        return SampleContext(answer.key, self.config.limits, account, replies, ask_budget=ask)

    def _build_program(self, prompts: PromptSet) -> Program:
        if (label := digest(prompts)) not in self.programs:
            self.programs[label] = self.program.deepcopy()
            apply_prompt_set(self.programs[label], prompts)
            if len(self.programs) > _MAX_PROGRAMS:
                self.programs.popitem(last=False)
        self.programs.move_to_end(label)
        return self.programs[label]


def _pack_trial(lease: int, trial: AnsweredTrial) -> Answered | Failed:
    """Return the message with the calls; predictions are sent without DSPy's own parts, which cannot be."""
    plain = [(name, dict(inputs), dspy.Prediction(**dict(outputs.items()))) for name, inputs, outputs in trial.calls]
    try:
        return Answered(lease, trial.record, pickle.dumps(plain, protocol=pickle.HIGHEST_PROTOCOL))
    except Exception as error:  # noqa: BLE001  values of the user's own classes
        return Failed(
            f"what a predictor of the program takes or returns cannot be sent by a worker ({error}): use executor=local"
        )


@dataclass(frozen=True)
class _Account:
    """RunBudget of a sample: its payments are reported."""

    lease: int
    send: Send
    reports_all: bool  # also requests that cost nothing, because each was reserved

    def reserve(self) -> None:
        """Allow every request: the run's process was asked before, or ends the run when its budget is used up."""

    def settle(self, payment: Payment | None) -> None:
        if self.reports_all or (payment is not None and not payment.refused):
            self.send(Paid(self.lease, payment))


@dataclass(frozen=True)
class _Replies:
    """ReplyLog of a sample: the replies that were kept for it, and new ones, which are reported."""

    lease: int
    send: Send
    kept: dict[str, str]

    def get(self, key: str) -> str | None:
        return self.kept.get(key)

    def put(self, key: str, reply: str) -> None:
        self.kept[key] = reply
        self.send(Replied(self.lease, key, reply))


class _Questions:
    """Requests that wait for an answer of the run's process."""

    def __init__(self, send: Send) -> None:
        self.send, self.numbers = send, count()
        self._waiting: dict[int, asyncio.Future[Granted]] = {}

    def answer(self, granted: Granted) -> None:
        if (waiting := self._waiting.get(granted.number)) is not None and not waiting.done():
            waiting.set_result(granted)

    async def ask(self, question: AskTurn | Reserve) -> Granted:
        waiting: asyncio.Future[Granted] = asyncio.get_running_loop().create_future()
        self._waiting[question.number] = waiting
        self.send(question)
        try:
            return await waiting
        finally:
            del self._waiting[question.number]

    async def reserve(self, lease: int) -> None:
        """Wait until a request of a sample is reserved.

        Raises:
            LimitReachedError: the run's budget is used up.
        """
        granted = await self.ask(Reserve(next(self.numbers), lease))
        if granted.limit is None:
            return
        raise LimitReachedError(granted.limit, granted.message)


class _SharedLimiter:
    """Limiter that asks the one in the run's process, so that all workers together keep one pace."""

    def __init__(self, questions: _Questions, model: str, server: Server) -> None:
        """`model`: as in `AskTurn`."""
        self._questions, self._model, self._server = questions, model, server

    async def acquire(self, tokens: int, get_patience: Callable[[], float] = lambda: math.inf) -> Permit:
        number = next(self._questions.numbers)
        try:
            granted = await self._questions.ask(AskTurn(number, self._model, self._server, tokens, get_patience()))
        except asyncio.CancelledError:
            self._questions.send(Ended(number))
            raise
        if granted.pause_seconds is not None:
            raise BackoffTooLongError(granted.pause_seconds)
        return _SharedPermit(self._questions.send, number)


class _SharedPermit:
    """A Permit."""

    def __init__(self, send: Send, number: int) -> None:
        self._send, self._number = send, number
        self._is_open = True

    def record_success(self) -> None:
        self._end("success")

    def record_rate_limit(self, retry_after_seconds: float | None) -> None:
        self._end("rate_limit", retry_after_seconds)

    def record_server_error(self) -> None:
        self._end("server_error")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_open:
            self._end(None)

    def _end(self, outcome: str | None, retry_after_seconds: float | None = None) -> None:
        self._is_open = False
        self._send(Ended(self._number, outcome, retry_after_seconds))
