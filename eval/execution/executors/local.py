"""What answers the samples of a run, each with one record: this process, on one event loop, or a Ray cluster.

answering = session.open_answering()
answered = await answering.answer(None, sample, SampleKey(sample.id), open_context)
await answering.close()
run_blocking(run_side_by_side(answer, pending, store.write, stop, concurrency=8))       # of all samples of a run
"""

import asyncio
import functools
import gc
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

import dspy

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.runner import SampleRunner, TracedCall
from eval.execution.termination import QUOTA_OR_KEY, StopController
from eval.runs.logs import DIGEST_CHARS, RunLogs
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from eval.scorers.labels import LabelSet
from mas.prompt_sets.prompt_set import PromptSet, digest, read_applied_prompts
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.system import Program

PendingSample = tuple[Sample, SampleKey]
OpenContext = Callable[[SampleKey], SampleContext]  # with limits, budget and call log
Inputs = Mapping[str, object]
NamedCall = tuple[str, Inputs, dspy.Prediction]  # with the predictor's name; its inputs are without tools
GC_THRESHOLDS = (20_000, 20, 100)  # 700, 10, 10 by default: objects, then collections of the younger generation


@dataclass(frozen=True)
class AnsweredTrial:
    """The record of an answer, and the calls of its program's predictors if prompts of its own were asked for."""

    record: Record
    calls: list[NamedCall] = field(default_factory=list)


class Answering(Protocol):
    """Answers single samples of a run. Used on the agents' event loop."""

    async def answer(
        self, program: Program | None, sample: Sample, sample_key: SampleKey, open_context: OpenContext
    ) -> AnsweredTrial:
        """Answer and score a sample; `close` cancels it.

        `program`: a copy of the session's, whose prompts count; None: the run's own program.
        """

    async def close(self) -> None:
        """End what answers, and count what its requests in flight have cost; the next sample starts it again."""


@dataclass(frozen=True)
class LocalAnswering:
    """An `Answering` in this process."""

    runner: SampleRunner
    prompts: PromptSet | None  # of the run

    async def answer(
        self, program: Program | None, sample: Sample, sample_key: SampleKey, open_context: OpenContext
    ) -> AnsweredTrial:
        runner = replace(self.runner, open_context=open_context)
        if program is None:
            return AnsweredTrial(await runner.run_sample(sample, sample_key))
        assert self.prompts is not None, "a search has prompts to start from"
        if runner.open_listener is not None:
            label = digest(read_applied_prompts(program, self.prompts))[:DIGEST_CHARS]
            runner = replace(runner, open_listener=functools.partial(runner.open_listener, prompts_sha256=label))
        calls: list[TracedCall] = []
        record = await replace(runner, program=program).run_sample(sample, sample_key, calls)
        names = {id(predictor): name for name, predictor in program.named_predictors()}
        named: list[NamedCall] = [
            (names[id(predictor)], {name: value for name, value in inputs.items() if name != "tools"}, outputs)
            for predictor, inputs, outputs in calls
            if id(predictor) in names
        ]
        return AnsweredTrial(record, named)

    async def close(self) -> None:
        """Do nothing: the answers are tasks of the caller."""


def create_answering(
    config: EvalConfig, program: Program, prompts: PromptSet | None, run_info: RunInfo, logs: RunLogs | None
) -> LocalAnswering:
    runner = SampleRunner(
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
    return LocalAnswering(runner, prompts)


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
