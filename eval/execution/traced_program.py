"""A program that keeps the calls of its predictors, which optimizers learn from.

traced = TracedProgram(program)
await traced.acall(question="…", file=None)
traced.name_calls()[0]                    # ("planner", {"question": …}, the prediction)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import dspy

from eval.runs.record import Record
from mas.system import Program

Inputs = Mapping[str, object]
TraceEntry = tuple[dspy.Predict, Inputs, dspy.Prediction]  # as `dspy.settings.trace` holds it
NamedCall = tuple[str, Inputs, dspy.Prediction]  # with the predictor's name; its inputs are without tools


@dataclass(frozen=True)
class AnsweredTrial:
    """The record of an answer, and the calls of its program's predictors."""

    record: Record
    calls: list[NamedCall]


@dataclass
class TracedProgram:
    """An Answerer that keeps DSPy's trace of its answer, also of one that failed."""

    program: Program
    trace: list[TraceEntry] = field(default_factory=list)

    async def acall(
        self, *, question: str, file: str | Path | None, inputs: Mapping[str, str] | None = None
    ) -> dspy.Prediction:
        try:
            return await self.program.acall(question=question, file=file, inputs=inputs)
        finally:
            self.trace = list(dspy.settings.trace or ())

    def name_calls(self) -> list[NamedCall]:
        """Return the calls of the program's own predictors."""
        names = {id(predictor): name for name, predictor in self.program.named_predictors()}
        return [
            (names[id(predictor)], {name: value for name, value in inputs.items() if name != "tools"}, outputs)
            for predictor, inputs, outputs in self.trace
            if id(predictor) in names
        ]
