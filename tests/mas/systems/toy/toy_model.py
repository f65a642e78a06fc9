"""The scripted model for the toy system's three agents, and the program over it, put together as a run does it."""

from typing import Any

from dspy.lm15 import Request, Response

from eval.cli.paths import PROJECT_ROOT
from mas.prompt_sets.prompt_set import read_prompt_set
from mas.systems.toy.system import AGENTS, ToySystem
from mas.tools.settings import Resources
from tests.scripted_model import ScriptedModel, _response, all_text, answering

FIELDS = {"plan": "problem", "solve": "problem_and_steps", "finalize": "result_to_finalize"}
STRAIGHT: dict[str, dict[str, Any]] = {
    "plan": {"steps": ["Multiply 3 by 4.", "Take 2 away."]},
    "solve": {"working": "3 * 4 = 12\n12 - 2 = 10", "result": "10 crowns"},
    "finalize": {"final_answer": "10", "final_reasoning_trace": "Twelve less two."},
}


class ToyModel(ScriptedModel):
    """As ScriptedModel, which knows the GAIA system's agents only."""

    def __init__(self, **answers: Any) -> None:
        super().__init__(answering(**{**STRAIGHT, **answers}))

    def respond(self, request: Request) -> Response:
        fields = all_text(request).partition("Your output fields are:")[0]
        agent = next(name for name, field in FIELDS.items() if f"1. `{field}` (" in fields)
        with self._lock:
            self.requests.append((agent, request))
            answer = self.script(agent, request)
        if isinstance(answer, Exception):
            raise answer
        return _response(request, answer)


def build(model: ScriptedModel, **settings: Any) -> Any:
    system = ToySystem(**settings)
    system.check()
    prompts = read_prompt_set("toy_baseline", AGENTS, "toy", PROJECT_ROOT)
    return system.build(model, prompts, Resources())
