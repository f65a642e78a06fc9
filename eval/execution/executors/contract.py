"""Contract of what answers the samples of a run, each with one record: this process, or a Ray cluster.

answering = session.open_answering()
answered = await answering.answer(None, sample, SampleKey(sample.id), open_context)
await answering.close()
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import dspy

from eval.benchmarks.dataset import Sample
from eval.runs.record import Record
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.system import Program

PendingSample = tuple[Sample, SampleKey]
OpenContext = Callable[[SampleKey], SampleContext]  # with limits, budget and call log
Inputs = Mapping[str, object]
NamedCall = tuple[str, Inputs, dspy.Prediction]  # with the predictor's name; its inputs are without tools


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
        ...

    async def close(self) -> None:
        """End what answers, and count what its requests in flight have cost; the next sample starts it again."""
        ...
