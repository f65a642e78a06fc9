"""Worker process of `executor=processes`: builds the program and answers the samples that it is given.

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
import os
import signal
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
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
    Paid,
    Permitted,
    Ready,
    Replied,
    Start,
    receive_start,
)
from eval.execution.executors.contract import SampleHooks
from eval.execution.executors.local import create_runner, relax_gc
from eval.execution.executors.shared_limiter import SharedLimiters
from eval.execution.runner import SampleRunner
from eval.runs.call_log import Caches, open_caches
from eval.runs.logs import AnswerLog, RunLogs
from mas.llm.profiles.profile import ModelProfile
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import Payment, SampleContext, SampleKey
from mas.system import Resources

_CLOSE_SECONDS = 10.0  # for tools to be closed once the run's process has ended


class _Send(Protocol):
    def __call__(self, message: Paid | Replied, /) -> None: ...


@dataclass(frozen=True)
class _Account:
    """RunBudget of a sample: its payments are reported."""

    key: SampleKey
    send: _Send

    def reserve(self) -> None:
        """Allow every request: the run's process ends the run when its budget is used up."""

    def settle(self, payment: Payment | None) -> None:
        if payment is not None and not payment.refused:
            self.send(Paid(self.key, payment))


@dataclass(frozen=True)
class _Replies:
    """ReplyLog of a sample: the replies that were kept for it, and new ones, which are reported."""

    key: SampleKey
    send: _Send
    kept: dict[str, str]

    def get(self, key: str) -> str | None:
        return self.kept.get(key)

    def put(self, key: str, reply: str) -> None:
        self.kept[key] = reply
        self.send(Replied(self.key, key, reply))


@dataclass
class _Samples:
    """Samples in flight."""

    config: EvalConfig
    caches: Caches
    channel: Channel
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    replies: dict[SampleKey, dict[str, str]] = field(default_factory=dict)
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    def open_context(self, key: SampleKey) -> SampleContext:
        replies = _Replies(key, self._send, self.replies.pop(key))
        account = _Account(key, self._send)
        return SampleContext(key, self.config.limits, account, replies, self.caches.replies, self.caches.results)

    def _send(self, message: Paid | Replied) -> None:
        """Send from any thread, in the order of the calls."""
        if threading.get_ident() == self._thread:
            self.channel.send(message)
        else:
            self.loop.call_soon_threadsafe(self.channel.send, message)

    def __post_init__(self) -> None:
        self._thread = threading.get_ident()

    def begin(self, runner: SampleRunner, answer: Answer) -> None:
        self.replies[answer.key] = dict(answer.replies)
        task = self.loop.create_task(self._answer(runner, answer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer(self, runner: SampleRunner, answer: Answer) -> None:
        record = await runner.run_sample(answer.sample, answer.key)
        if (task := asyncio.current_task()) is None or not task.cancelling():  # else the program ignored it
            self.channel.send(Answered(record))

    async def cancel(self) -> None:
        """Break off what is in flight; its payments are reported."""
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)


def run_worker(end: socket.socket) -> None:
    """Answer samples until the run's process says so, or has ended."""
    start = receive_start(end)
    if start is None:
        return
    sys.path[:] = start.path
    try:
        config = read_config(OmegaConf.create(dict(start.config)))
        folder = Path(start.folder)
        with (
            config.system.open_resources(config.tools, lambda line: None) as resources,
            RunLogs(folder, config.secrets(), config.log) as logs,
            open_caches(config.cache, folder, start.run_info.run_id, config.redact) as caches,
            dspy.context(disable_history=True),
            relax_gc(),
        ):
            run_blocking(_work(end, start, config, resources, logs, caches))
    except UserError as error:
        run_blocking(_report(end, str(error)))


async def _report(end: socket.socket, message: str) -> None:
    channel = await Channel.open(end)
    channel.send(Failed(message))
    await channel.close()


async def _work(
    end: socket.socket, start: Start, config: EvalConfig, resources: Resources, logs: RunLogs, caches: Caches
) -> None:
    channel = await Channel.open(end)
    try:
        shared = SharedLimiters(channel.send)
        for name, model in {"": config.model, **config.judges}.items():
            if isinstance(model, ModelProfile):
                model.use_rate_limiters(shared.for_model(name))
        samples = _Samples(config, caches, channel)
        answers = AnswerLog(logs, lambda error: channel.send(Failed(f"the run's logs cannot be written ({error})")))
        hooks = SampleHooks(Path(start.folder), samples.open_context, answers.begin)
        program = config.system.build(config.model, start.prompts, resources)
        runner = create_runner(config, program, start.run_info, hooks)
        channel.send(Ready())
        async for message in channel:
            match message:
                case Answer():
                    samples.begin(runner, message)
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
