"""A judge that is a simulated model: `scorer.judge._target_=tests.eval.scorers.simulated_judge.SimulatedJudge`."""

from dataclasses import dataclass
from typing import ClassVar

from mas.llm.profiles.openai_chat import OpenAIChatModel


@dataclass
class SimulatedJudge(OpenAIChatModel):
    simulated: ClassVar[bool] = True
