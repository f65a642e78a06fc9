"""Epochs and attempts of the simulated model: fresh draws, and the first is what it always was."""

import asyncio
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from mas.llm.profiles.model import AgentModel
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.simulation import SimulatedModel
from mas.systems.gaia.nodes import Solve

QUESTIONS = [f"What is {a} * {a + 7}?" for a in range(13, 53)]


def drawn(sample: SampleKey | None) -> list[tuple[Any, Any]]:
    return asyncio.run(_drawn(sample))


async def _drawn(sample: SampleKey | None) -> list[tuple[Any, Any]]:
    lm = SimulatedModel().create_lm(AgentModel())
    with dspy.context(lm=lm):
        if sample is None:
            return [await _one(text) for text in QUESTIONS]
        with use_context(SampleContext(sample)):
            return [await _one(text) for text in QUESTIONS]


async def _one(text: str) -> tuple[Any, Any]:
    request = f"<question>\n{text}\n</question>"
    try:
        prediction = await dspy.Predict(Solve).acall(
            expert_request=request, file=None, history=dspy.History(messages=[]), tools=[]
        )
    except AdapterParseError:
        return "unreadable", None
    return prediction.expert_answer, prediction.reasoning_trace


def test_the_first_sample_is_the_reply_without_any_run() -> None:
    assert drawn(SampleKey("q")) == drawn(None)


def test_another_epoch_or_attempt_is_another_draw_and_the_same_one_each_time() -> None:
    first, second, retried = (drawn(SampleKey("q", *sample)) for sample in ((1, 1), (2, 1), (1, 2)))
    assert first != second != retried != first
    assert drawn(SampleKey("q", 2, 1)) == second
