"""Worker of `executor=processes` and `executor=ray`: builds the program and answers the samples that it is given.

    python eval/execution/executors/worker.py 7       # 7: descriptor of its socket; started by `processes.py`

It writes to the run's logs and caches. Records, replies and payments go to the run's process, which alone writes the
store and the call log, keeps the budget and has the rate limiters. A worker ends when that process has ended.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[3])
    import eval.cli.start  # noqa: F401

import asyncio
import functools
import os
import pickle
import signal
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from tempfile import TemporaryDirectory
from typing import Protocol

import dspy
from omegaconf import OmegaConf

from eval.config.evaluation import EvalConfig, read_config
from eval.execution.executors.channel import (
    Answer,
    Answered,
    Cancel,
    Channel,
    Failed,
    Logged,
    Paid,
    Permitted,
    Prompts,
    Ready,
    Replied,
    Reserve,
    Reserved,
    Start,
    identify_folder,
    receive_start,
)
from eval.execution.executors.contract import SampleHooks
from eval.execution.executors.local import create_runner, relax_gc
from eval.execution.executors.shared_limiter import SharedLimiters
from eval.execution.runner import SampleRunner
from eval.execution.traced_program import NamedCall, TracedProgram
from eval.runs.call_log import Caches, MaskedReplies, SampleResults, open_caches
from eval.runs.logs import DIGEST_CHARS, AnswerLog, LogFile, LogSink, RunLogs
from eval.runs.record import Record
from mas.llm.profiles.profile import ModelProfile
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import LimitReachedError, Payment, ReplyLog, SampleContext, current_context
from mas.runtime.trace import Listener
from mas.system import Program, Resources

_MAX_PROGRAMS = 32  # kept, of trials
_CLOSE_SECONDS = 10.0  # for tools to be closed once the run's process has ended


class _Send(Protocol):
    def __call__(self, message: Paid | Replied | Reserve, /) -> None: ...


@dataclass(frozen=True)
class _Account:
    """RunBudget of a sample: its payments are reported."""

    lease: int
    send: _Send
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
    send: _Send
    kept: dict[str, str]

    def get(self, key: str) -> str | None:
        return self.kept.get(key)

    def put(self, key: str, reply: str) -> None:
        self.kept[key] = reply
        self.send(Replied(self.lease, key, reply))


@dataclass
class _BudgetQuestions:
    """Requests that wait for the run's process to reserve them."""

    send: _Send
    numbers: Iterator[int] = field(default_factory=count)
    waiting: dict[int, "asyncio.Future[None]"] = field(default_factory=dict)

    async def ask(self, lease: int) -> None:
        """Wait until a request of a sample is reserved.

        Raises:
            LimitReachedError: the run's budget is used up.
        """
        number = next(self.numbers)
        waiting = self.waiting[number] = asyncio.get_running_loop().create_future()
        self.send(Reserve(lease, number))
        try:
            await waiting
        except _RefusedError as refused:
            if (context := current_context()) is not None and refused.reserved.refusal is not None:
                context.server_refusal = refused.reserved.refusal
            raise LimitReachedError(refused.reserved.limit or "", refused.reserved.message) from None
        finally:
            self.waiting.pop(number, None)

    def answer(self, reserved: Reserved) -> None:
        if (waiting := self.waiting.get(reserved.number)) is None or waiting.done():
            return
        if reserved.limit is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(_RefusedError(reserved))


class _RefusedError(Exception):
    def __init__(self, reserved: Reserved) -> None:
        super().__init__(reserved.message)
        self.reserved = reserved


@dataclass
class _Samples:
    """Samples in flight."""

    config: EvalConfig
    caches: Caches
    channel: Channel
    asks_budget: bool
    program: Program  # with the run's own prompts
    runner: SampleRunner
    begin_log: Callable[..., Listener]
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    prompts: dict[str, PromptSet] = field(default_factory=dict)  # of trials, by digest
    programs: OrderedDict[str, Program] = field(default_factory=OrderedDict)  # with those prompts: the last ones used

    def __post_init__(self) -> None:
        self._thread = threading.get_ident()
        self.budget = _BudgetQuestions(self.send)

    def send(self, message: Paid | Replied | Reserve | Logged) -> None:
        """Send from any thread, in the order of the calls."""
        if threading.get_ident() == self._thread:
            self.channel.send(message)
        else:
            self.loop.call_soon_threadsafe(self.channel.send, message)

    def begin(self, answer: Answer) -> None:
        if answer.sample.file is not None:  # of another machine: within the files that came with the program
            answer = replace(answer, sample=replace(answer.sample, file=answer.sample.file.absolute()))
        task = self.loop.create_task(self._answer(answer) if answer.prompts is None else self._try(answer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer(self, answer: Answer) -> None:
        """Answer a sample of an evaluation."""
        context = self._open_context(answer, _Replies(answer.lease, self.send, dict(answer.replies)))
        context = replace(context, shared_cache=self.caches.replies, tool_log=self.caches.results)
        runner = replace(self.runner, open_context=lambda key: context)
        record = await runner.run_sample(answer.sample, answer.key)
        if not _is_cancelled():  # else the program ignored it
            self.channel.send(Answered(answer.lease, record))

    async def _try(self, answer: Answer) -> None:
        """Answer a trial of a tuning run: with its own prompts, and tool results among its replies."""
        assert answer.prompts is not None
        replies = MaskedReplies(_Replies(answer.lease, self.send, dict(answer.replies)), self.config.secrets)
        context = replace(self._open_context(answer, replies), tool_log=SampleResults(replies))
        traced, label = TracedProgram(self._build_program(answer.prompts)), answer.prompts[:DIGEST_CHARS]
        runner = replace(
            self.runner,
            program=traced,
            open_context=lambda key: context,
            open_listener=functools.partial(self.begin_log, prompts_sha256=label),
        )
        record = await runner.run_sample(answer.sample, answer.key)
        if not _is_cancelled():
            self.channel.send(self._pack(answer.lease, record, traced.name_calls()))

    def _pack(self, lease: int, record: Record, calls: Sequence[NamedCall]) -> Answered | Failed:
        """Return the message with the calls; predictions are sent without DSPy's own parts, which cannot be."""
        plain = [(name, dict(inputs), dspy.Prediction(**dict(outputs.items()))) for name, inputs, outputs in calls]
        try:
            return Answered(lease, record, pickle.dumps(plain, protocol=pickle.HIGHEST_PROTOCOL))
        except Exception as error:  # noqa: BLE001  values of the user's own classes
            return Failed(
                f"what a predictor of the program takes or returns cannot be sent by a worker process ({error}): use "
                "executor=local"
            )

    def _open_context(self, answer: Answer, replies: ReplyLog) -> SampleContext:
        account = _Account(answer.lease, self.send, self.asks_budget)
        ask = functools.partial(self.budget.ask, answer.lease) if self.asks_budget else None
        return SampleContext(answer.key, self.config.limits, account, replies, ask_budget=ask)

    def _build_program(self, prompts: str) -> Program:
        if prompts not in self.programs:
            program = self.program.deepcopy()
            apply_prompt_set(program, self.prompts[prompts])
            self.programs[prompts] = program
            if len(self.programs) > _MAX_PROGRAMS:
                self.programs.popitem(last=False)
        self.programs.move_to_end(prompts)
        return self.programs[prompts]

    async def cancel(self) -> None:
        """Break off what is in flight; its payments are reported."""
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@dataclass(eq=False)  # structlog puts it into a dictionary
class _SentLog:
    """LogSink of a worker that does not see the run's folder: sends the lines."""

    name: str
    send: Callable[[Logged], None] | None = None  # None: there is nothing to say yet

    def write(self, text: str) -> None:
        if self.send is not None:
            self.send(Logged(self.name, text))

    def flush(self) -> None:
        """Do nothing: the channel sends the lines of one turn of the loop together."""

    def close(self) -> None:
        self.send = None


@dataclass
class _Place:
    """The folder that a worker works in, and its logs that are sent from there."""

    folder: Path
    sent: list[_SentLog] | None = None  # None: it is the run's folder, where logs are files

    def open_sink(self, path: Path) -> LogSink:
        if self.sent is None:
            return LogFile(path)
        self.sent.append(_SentLog(path.stem))
        return self.sent[-1]


@contextmanager
def _open_place(start: Start) -> Iterator[_Place]:
    """Open the run's folder, or on another machine a temporary one: its caches are then those of this worker."""
    if start.identity is None or start.identity == identify_folder(start.folder):
        yield _Place(Path(start.folder))
        return
    with TemporaryDirectory(prefix="mas-worker-") as folder:
        yield _Place(Path(folder), [])


def run_worker(end: socket.socket) -> None:
    """Answer samples until the run's process says so, or has ended."""
    start = receive_start(end)
    if start is None:
        return
    if start.path:
        sys.path[:] = start.path
    try:
        config = read_config(OmegaConf.create(dict(start.config)))
        with (
            _open_place(start) as place,
            config.system.open_resources(config.tools, lambda line: None) as resources,
            RunLogs(place.folder, config.secrets(), config.log, place.open_sink) as logs,
            open_caches(config.cache, place.folder, start.run_info.run_id, config.redact) as caches,
            dspy.context(disable_history=True),
            relax_gc(),
        ):
            if place.sent is not None:
                config.check_model()  # its key is in the environment of that machine, or is not
            run_blocking(_work(end, start, config, resources, logs, caches, place))
    except UserError as error:
        run_blocking(_report(end, str(error)))


async def _report(end: socket.socket, message: str) -> None:
    channel = await Channel.open(end)
    channel.send(Failed(message))
    await channel.close()


async def _work(
    end: socket.socket,
    start: Start,
    config: EvalConfig,
    resources: Resources,
    logs: RunLogs,
    caches: Caches,
    place: _Place,
) -> None:
    channel = await Channel.open(end)
    try:
        shared = SharedLimiters(channel.send)
        for name, model in {"": config.model, **config.judges}.items():
            if isinstance(model, ModelProfile):
                model.use_rate_limiters(shared.for_model(name))
        answers = AnswerLog(logs, lambda error: channel.send(Failed(f"the run's logs cannot be written ({error})")))
        program = config.system.build(config.model, start.prompts, resources)
        hooks = SampleHooks(place.folder, open_listener=answers.begin)
        runner = create_runner(config, program, start.run_info, hooks)
        samples = _Samples(config, caches, channel, start.asks_budget, program, runner, answers.begin)
        for log in place.sent or ():
            log.send = samples.send
        channel.send(Ready(os.getpid(), socket.gethostname()))
        async for message in channel:
            match message:
                case Prompts():
                    samples.prompts[message.digest] = message.prompts
                case Answer():
                    samples.begin(message)
                case Reserved():
                    samples.budget.answer(message)
                case Permitted():
                    shared.permit(message)
                case Cancel():
                    break
        leave = threading.Timer(_CLOSE_SECONDS, os._exit, [1])  # code may ignore its cancellation for ever
        leave.daemon = True
        leave.start()
        await samples.cancel()
    except UserError as error:
        channel.send(Failed(str(error)))
    finally:
        await channel.close()


if __name__ == "__main__":
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the run's process decides what they mean
        signal.signal(each, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as given, suppress(KeyboardInterrupt):
        run_worker(given)
