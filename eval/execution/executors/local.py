"""Runs samples in this process: `run.concurrency` at once on one event loop.

executor = LocalExecutor(config, prompts, resources)
run_blocking(executor.run(info, pending, store.write, StopController()))
"""

import asyncio
import copy
import functools
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import dspy

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.executors.contract import Answering, OnRecord, OpenContext, PendingSample, SampleHooks
from eval.execution.runner import SampleRunner
from eval.execution.termination import QUOTA_OR_KEY, StopController
from eval.execution.traced_program import AnsweredTrial, TracedProgram
from eval.runs.logs import DIGEST_CHARS
from eval.runs.run_info import RunInfo
from eval.scorers.labels import LabelSet
from mas.prompt_sets.prompt_set import PromptSet, digest, read_applied_prompts
from mas.runtime.sample_context import SampleKey
from mas.system import Program, Resources

GC_THRESHOLDS = (20_000, 20, 100)  # 700, 10, 10 by default: objects, then collections of the younger generation


class LocalExecutor:
    """An Executor (see `contract.py`)."""

    def __init__(self, config: EvalConfig, prompts: PromptSet | None, resources: Resources) -> None:
        """Build the program.

        Raises:
            UserError: it cannot be built, such as with a tool that cannot be loaded.
        """
        self.program = config.system.build(config.model, prompts, resources)
        self._config, self._hooks, self._prompts = config, SampleHooks(), prompts

    def with_hooks(self, hooks: SampleHooks) -> Self:
        """Return an executor of the same program for one session."""
        executor = copy.copy(self)
        executor._hooks = hooks
        return executor

    async def run(
        self, run_info: RunInfo, pending: Sequence[PendingSample], on_record: OnRecord, stop: StopController
    ) -> None:
        """Run the samples; see `Executor.run`."""
        runner = create_runner(self._config, self.program, run_info, self._hooks)
        await run_side_by_side(runner, pending, on_record, stop, self._config.run.concurrency)

    def open_answering(self, run_info: RunInfo, stop: StopController) -> Answering:
        """Return what answers single samples; see `Executor.open_answering`."""
        assert self._prompts is not None, "a search has prompts to start from"
        return LocalAnswering(create_runner(self._config, self.program, run_info, self._hooks), self._prompts)


@dataclass(frozen=True)
class LocalAnswering:
    """An Answering (see `contract.py`) in this process."""

    runner: SampleRunner
    prompts: PromptSet  # of the run

    async def answer(
        self, program: Program, sample: Sample, sample_key: SampleKey, open_context: OpenContext
    ) -> AnsweredTrial:
        label = digest(read_applied_prompts(program, self.prompts))[:DIGEST_CHARS]
        listen = functools.partial(self.runner.open_listener, prompts_sha256=label)
        traced = TracedProgram(program)
        runner = replace(self.runner, program=traced, open_context=open_context, open_listener=listen)
        record = await runner.run_sample(sample, sample_key)
        return AnsweredTrial(record, traced.name_calls())

    async def close(self) -> None:
        """Do nothing: the answers are tasks of the caller."""


def create_runner(config: EvalConfig, program: Program, run_info: RunInfo, hooks: SampleHooks) -> SampleRunner:
    """Return what answers the samples of a run with its program."""
    return SampleRunner(
        run_id=run_info.run_id,
        program=program,
        scorer=config.scorer,
        extra_scorers=config.extra_scorers,
        deadline_seconds=config.run.deadline_seconds,
        redact=config.redact,
        open_context=hooks.open_context,
        open_listener=hooks.open_listener,
        cost_without_calls=0.0 if config.needs_model else None,
        labels=LabelSet(tuple(run_info.task.labels)),
    )


async def run_side_by_side(
    runner: SampleRunner, pending: Sequence[PendingSample], on_record: OnRecord, stop: StopController, concurrency: int
) -> None:
    """Run the samples, at most `concurrency` at once; a finished record is handed over before the next sample starts.

    Raises:
        Exception: whatever `on_record` raises.
    """
    if not pending:
        return
    waiting = iter(pending)
    with dspy.context(disable_history=True):
        workers = [
            asyncio.create_task(_work(runner, waiting, on_record, stop)) for _ in range(min(concurrency, len(pending)))
        ]
        await stop.supervise(workers)


async def _work(
    runner: SampleRunner, waiting: Iterator[PendingSample], on_record: OnRecord, stop: StopController
) -> None:
    while stop.reason is None and (pending := next(waiting, None)):
        record = await runner.run_sample(*pending)
        if _is_cancelled():  # and the program ignored it
            return
        if record.error_class != QUOTA_OR_KEY:
            on_record(record)
        stop.observe(record)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def relax_gc() -> Iterator[None]:
    """Exclude today's objects from garbage collection and collect new ones more rarely: a fourth of a run's CPU time.

    Left as it is, the collector looks through DSPy, LangGraph and their pydantic classes again and again.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
