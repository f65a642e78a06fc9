"""The GAIA system's settings, and how its program is made from them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import ClassVar

from mas.agents.settings import AgentSettings, check_agent, check_agent_names, tool_names, toolbox
from mas.llm.profiles.model import AgentModel, Model
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.runtime.errors import UserError
from mas.system import Program, Resources
from mas.systems.gaia.state import AGENTS, WORKERS
from mas.tools.catalogue import open_tools
from mas.tools.settings import ToolSettings

TOOL_USERS = ("researcher", "expert")
ON_RETRY_EXHAUSTED = ("give_up", "best_effort")


@dataclass
class GaiaSystem:
    """Its fields are the keys of `conf/system/gaia.yaml`."""

    needs_model: ClassVar[bool] = True

    name: str = "gaia"
    default_prompts: str | None = "baseline"
    max_research_steps: int = 6  # a plan with more is sent back to the planner
    on_retry_exhausted: str = "give_up"  # give_up: a fixed answer, no LM call | best_effort: the finalizer tries
    tools: dict[str, str] = field(default_factory=dict)  # name → "package.module.function"
    agents: dict[str, AgentSettings] = field(default_factory=dict)

    @property
    def agent_names(self) -> Sequence[str]:
        return AGENTS

    def check(self) -> None:
        check_agent_names(self.agents, AGENTS, "gaia")
        if self.on_retry_exhausted not in ON_RETRY_EXHAUSTED:
            raise UserError(
                f"system.on_retry_exhausted={self.on_retry_exhausted} is not known; choose one of: "
                f"{', '.join(ON_RETRY_EXHAUSTED)}."
            )
        if self.max_research_steps < 0:
            raise UserError(f"system.max_research_steps={self.max_research_steps} is negative; 0 means no research.")
        for name in AGENTS:
            check_agent(name, self._settings(name), self.tools, TOOL_USERS)

    def secrets(self) -> Sequence[str]:
        return ()  # those of tools are with their settings

    def open_resources(
        self, settings: ToolSettings, report_missing: Callable[[str], None]
    ) -> AbstractContextManager[Resources]:
        return open_tools(settings, tool_names(map(self._settings, TOOL_USERS)), report_missing)

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        from mas.systems.gaia.program import GaiaProgram

        program = GaiaProgram(
            retry_limits={name: self._settings(name).retry_limit for name in WORKERS},
            max_research_steps=self.max_research_steps,
            on_retry_exhausted=self.on_retry_exhausted,
            toolboxes={name: toolbox(self._settings(name), self.tools, resources) for name in TOOL_USERS},
        )
        for name, predictor in program.named_predictors():
            predictor.lm = model.create_lm(
                AgentModel(self._settings(name).model, self._settings(name).temperature, name)
            )
        if prompts is not None:
            apply_prompt_set(program, prompts)
        return program

    def _settings(self, name: str) -> AgentSettings:
        return self.agents.get(name, AgentSettings())
