"""Answers samples in this process, on one event loop.

answering = LocalAnswering(create_runner(config, program, info, logs), prompts)
run_blocking(run_side_by_side(answer, pending, store.write, stop, concurrency=8))
"""

import asyncio
import functools
import gc
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dspy

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.executors.contract import AnsweredTrial, NamedCall, OpenContext, PendingSample
from eval.execution.runner import SampleRunner
from eval.execution.termination import QUOTA_OR_KEY, StopController
from eval.runs.logs import DIGEST_CHARS, RunLogs
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from eval.scorers.labels import LabelSet
from mas.prompt_sets.prompt_set import PromptSet, digest, read_applied_prompts
from mas.runtime.sample_context import SampleKey
from mas.system import Program

GC_THRESHOLDS = (20_000, 20, 100)  # 700, 10, 10 by default: objects, then collections of the younger generation


@dataclass(frozen=True)
class LocalAnswering:
    """An Answering (see `contract.py`) in this process."""

    runner: SampleRunner
    prompts: PromptSet | None  # of the run

    async def answer(
        self, program: Program | None, sample: Sample, sample_key: SampleKey, open_context: OpenContext
    ) -> AnsweredTrial:
        if program is None:
            return AnsweredTrial(await replace(self.runner, open_context=open_context).run_sample(sample, sample_key))
        assert self.prompts is not None, "a search has prompts to start from"
        label = digest(read_applied_prompts(program, self.prompts))[:DIGEST_CHARS]
        traced, listen = _TracedProgram(program), self.runner.open_listener
        if listen is not None:
            listen = functools.partial(listen, prompts_sha256=label)
        runner = replace(self.runner, program=traced, open_context=open_context, open_listener=listen)
        return AnsweredTrial(await runner.run_sample(sample, sample_key), traced.name_calls())

    async def close(self) -> None:
        """Do nothing: the answers are tasks of the caller."""


@dataclass
class _TracedProgram:
    """An Answerer that keeps the calls of its predictors, also of an answer that failed: optimizers learn from them."""

    program: Program
    trace: list[tuple[Any, Mapping[str, object], dspy.Prediction]] = field(default_factory=list)  # as DSPy has it

    async def acall(
        self, *, question: str, file: str | Path | None, inputs: Mapping[str, str] | None = None
    ) -> dspy.Prediction:
        try:
            return await self.program.acall(question=question, file=file, inputs=inputs)
        finally:
            self.trace = list(dspy.settings.trace or ())

    def name_calls(self) -> list[NamedCall]:
        names = {id(predictor): name for name, predictor in self.program.named_predictors()}
        return [
            (names[id(predictor)], {name: value for name, value in inputs.items() if name != "tools"}, outputs)
            for predictor, inputs, outputs in self.trace
            if id(predictor) in names
        ]


def create_runner(config: EvalConfig, program: Program, run_info: RunInfo, logs: RunLogs | None) -> SampleRunner:
    return SampleRunner(
        run_id=run_info.run_id,
        program=program,
        scorer=config.scorer,
        extra_scorers=config.extra_scorers,
        deadline_seconds=config.run.deadline_seconds,
        redact=config.redact,
        open_listener=logs.begin if logs else None,
        cost_without_calls=0.0 if config.needs_model else None,
        labels=LabelSet(tuple(run_info.task.labels)),
    )


async def run_side_by_side(
    answer: Callable[[Sample, SampleKey], Awaitable[Record | None]],
    pending: Sequence[PendingSample],
    on_record: Callable[[Record], None],
    stop: StopController,
    concurrency: int,
) -> None:
    """Answer the samples once each, in this order; fewer if `stop`, which is shown each record, says so.

    `answer` returns None if the budget of the work is used up. `on_record` is called with each finished record before
    another sample takes its place; not for one that was cancelled or met a used-up quota. What it raises ends the work.
    """
    waiting = iter(pending)

    async def work() -> None:
        while stop.reason is None and (each := next(waiting, None)):
            record = await answer(*each)
            if (current := asyncio.current_task()) is not None and current.cancelling():  # and the program ignored it
                return
            if record is None:
                return
            if record.error_class != QUOTA_OR_KEY:
                on_record(record)
            stop.observe(record)

    if pending and stop.reason is None:
        with dspy.context(disable_history=True):
            workers = [asyncio.create_task(work()) for _ in range(min(concurrency, len(pending)))]
            await stop.supervise(workers)


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
