"""Calls of a program's predictors, with the predictors' names, also of an answer that failed."""

import asyncio
from typing import Any, cast

import dspy
import pytest

from eval.execution.traced_program import TracedProgram, name_calls
from mas.system import Program


class Two:
    """A program of two predictors; the test says what they have traced."""

    def __init__(self) -> None:
        self.plan, self.solve = dspy.Predict("question -> plan"), dspy.Predict("plan -> answer")
        self.fails = False
        self.given: dict[str, Any] = {}

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        return [("plan", self.plan), ("solve", self.solve)]

    async def acall(self, **given: Any) -> dspy.Prediction:
        self.given = given
        if self.fails:
            raise ValueError("broken")
        return dspy.Prediction(answer="5")


def test_the_calls_of_its_own_predictors_are_named_and_their_tools_left_out() -> None:
    program, other = Two(), dspy.Predict("a -> b")
    outputs = [dspy.Prediction(n=number) for number in range(3)]
    trace = [
        (program.solve, {"plan": "p", "tools": ["search"]}, outputs[0]),
        (other, {"a": 1}, outputs[1]),
        (program.plan, {"question": "?"}, outputs[2]),
    ]
    calls = [("solve", {"plan": "p"}, outputs[0]), ("plan", {"question": "?"}, outputs[2])]
    assert name_calls(cast(Program, program), trace) == calls
    assert TracedProgram(cast(Program, program), trace).name_calls() == calls
    assert TracedProgram(cast(Program, program)).name_calls() == []


@pytest.mark.parametrize("fails", [False, True])
def test_the_trace_of_an_answer_is_kept_even_if_it_failed(fails: bool) -> None:
    program = Two()
    program.fails = fails
    traced = TracedProgram(cast(Program, program))
    call = (program.plan, {"question": "?"}, dspy.Prediction(plan="p"))

    async def answer() -> Any:
        with dspy.context(trace=[call]):
            return await traced.acall(question="?", file="a.csv", inputs={"x": "y"})

    if fails:
        with pytest.raises(ValueError, match="broken"):
            asyncio.run(answer())
    else:
        assert asyncio.run(answer()).answer == "5"
    assert program.given == {"question": "?", "file": "a.csv", "inputs": {"x": "y"}}
    assert traced.trace == [call]
    with dspy.context(trace=None):
        program.fails = False
        asyncio.run(traced.acall(question="?", file=None))
    assert traced.trace == [] and program.given["inputs"] is None
