"""The toy system's settings, and how its program is made from them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import ClassVar

from mas.agents.settings import check_agent_names
from mas.llm.profiles.model import AgentModel, Model
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.system import Program, Resources
from mas.tools.settings import ToolSettings

AGENTS = ("plan", "solve", "finalize")


@dataclass
class ToyAgentSettings:
    """One agent, which has neither tools nor retries; its prompt comes with the prompt set."""

    model: str | None = None  # name of the model for this agent; null: the run's
    temperature: float | None = None  # null: the run's


@dataclass
class ToySystem:
    """Its fields are the keys of `conf/system/toy.yaml`."""

    needs_model: ClassVar[bool] = True

    name: str = "toy"
    default_prompts: str | None = "toy_baseline"
    agents: dict[str, ToyAgentSettings] = field(default_factory=dict)

    @property
    def agent_names(self) -> Sequence[str]:
        return AGENTS

    def check(self) -> None:
        check_agent_names(self.agents, AGENTS, "toy")

    def secrets(self) -> Sequence[str]:
        return ()

    def open_resources(
        self, settings: ToolSettings, report_missing: Callable[[str], None]
    ) -> AbstractContextManager[Resources]:
        return nullcontext(Resources(settings))

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        from mas.systems.toy.program import ToyProgram

        program = ToyProgram()
        for name, predictor in program.named_predictors():
            settings = self.agents.get(name, ToyAgentSettings())
            predictor.lm = model.create_lm(AgentModel(settings.model, settings.temperature, name))
        if prompts is not None:
            apply_prompt_set(program, prompts)
        return program
