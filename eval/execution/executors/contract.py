"""Contract of an executor: where the samples of a run are answered, each with one record.

    answering = executor.open(info, hooks, stop)
    answered = await answering.answer(None, sample, SampleKey(sample.id), open_context)
    await answering.close()

What it runs can be built again in another process or on another machine from configuration and prompts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import dspy

from eval.benchmarks.dataset import Sample
from eval.execution.termination import StopController
from eval.runs.logs import AnswerLog
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.system import Program

PendingSample = tuple[Sample, SampleKey]
OpenContext = Callable[[SampleKey], SampleContext]  # with limits, budget and call log
Inputs = Mapping[str, object]
NamedCall = tuple[str, Inputs, dspy.Prediction]  # with the predictor's name; its inputs are without tools


@dataclass(frozen=True)
class SampleHooks:
    """What an executor uses of a session."""

    folder: Path  # of the run
    answers: AnswerLog
    read_replies: Callable[[SampleKey], Mapping[str, str]] = lambda key: {}  # that the call log has
    is_search: bool = False  # the budget may refuse each request


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

        `program`: a copy of the executor's, whose prompts count; None: the run's own program.
        """
        ...

    async def close(self) -> None:
        """End what answers, and count what its requests in flight have cost; the next sample starts it again."""
        ...


@runtime_checkable
class Executor(Protocol):
    """Runs samples somewhere. One executor runs one run."""

    @property
    def program(self) -> Program:
        """As built in this process."""
        ...

    def open(self, run_info: RunInfo, hooks: SampleHooks, stop: StopController) -> Answering:
        """Return what answers the samples of a session; `stop` ends the session if nothing can answer."""
        ...
