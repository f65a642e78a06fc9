"""A model for `model._target_=`: it looks the apple up in the attached file, and is down for one question."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from dspy.lm15 import Request
from dspy.utils.exceptions import LMServerError

from mas.llm.profiles.model import AgentModel
from mas.simulation import SimulatedModel
from tests.scripted_model import Answer, Call, ScriptedModel, said, tool_results


@dataclass
class ReadingModel(SimulatedModel):
    """Its keys are those of `conf/model/offline.yaml`."""

    simulated: ClassVar[bool] = False

    def create_lm(self, agent: AgentModel) -> Any:
        return ScriptedModel(_reply, native_tools=self.native_tools).create_lm(agent)


def _reply(agent: str, request: Request) -> Answer:
    text = "\n".join(each for _, each in said(request))
    if "Please fail" in text:
        return LMServerError("the model is down", model="reading")
    if "attached file" in text and not tool_results(request):
        return [Call("read_file", {"file": "prices.csv"})]
    read = re.search(r"apple[ ,|]+(\d+)", text)
    return {"final_answer": read[1] if read else "5", "final_reasoning_trace": "looked it up"}
