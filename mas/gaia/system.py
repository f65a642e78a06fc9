"""The GAIA system's settings, and how its program is made from them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from mas.errors import UserError
from mas.gaia.state import AGENTS, WORKERS
from mas.llm.model import AgentModel, Model
from mas.prompts import PromptSet, apply_prompt_set
from mas.tools.catalogue import load_function
from mas.tools.settings import ToolSettings

TOOL_USERS = ("researcher", "expert")
ON_RETRY_EXHAUSTED = ("give_up", "best_effort")


@dataclass
class AgentSettings:
    """One agent (`gaia-design.md` "Agent Configuration"; its prompt comes with the prompt set)."""

    model: str | None = None  # name of the model for this agent; null: the run's
    temperature: float | None = None  # null: the run's
    retry_limit: int = 3  # rejections at which the question is given up, at least 1; planner, researcher, expert
    tools: list[str] = field(default_factory=list)  # names from `system.tools`; researcher and expert
    max_steps: int = 10  # rounds of tool calls for one request, at least 1; researcher and expert


@dataclass
class GaiaSystem:
    """Its fields are the keys of `conf/system/gaia.yaml`."""

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
        if unknown := set(self.agents) - set(AGENTS):
            raise UserError(f"system.agents names {_listed(unknown)}; the gaia system's agents are {_listed(AGENTS)}.")
        if self.on_retry_exhausted not in ON_RETRY_EXHAUSTED:
            raise UserError(
                f"system.on_retry_exhausted={self.on_retry_exhausted} is not known; choose one of: "
                f"{', '.join(ON_RETRY_EXHAUSTED)}."
            )
        if self.max_research_steps < 0:
            raise UserError(f"system.max_research_steps={self.max_research_steps} is negative; 0 means no research.")
        for name in AGENTS:
            self._check_agent(name)

    def _check_agent(self, name: str) -> None:
        settings = self._settings(name)
        for key in ("retry_limit", "max_steps"):
            if getattr(settings, key) < 1:
                raise UserError(
                    f"system.agents.{name}.{key}={getattr(settings, key)} is too small; at least 1 is needed."
                )
        if settings.tools and name not in TOOL_USERS:
            raise UserError(f"system.agents.{name}.tools is set, but only {' and '.join(TOOL_USERS)} can use tools.")
        if unknown := set(settings.tools) - set(self.tools):
            raise UserError(
                f"system.agents.{name}.tools names {_listed(unknown)}; tools defined in system.tools: "
                f"{_listed(self.tools)}."
            )

    def open_resources(self) -> AbstractContextManager[Any]:
        return nullcontext()  # no tool of this system holds a connection yet

    def build(self, model: Model, prompts: PromptSet | None, tools: ToolSettings, resources: Any) -> Any:
        from mas.gaia.program import GaiaProgram

        program = GaiaProgram(
            retry_limits={name: self._settings(name).retry_limit for name in WORKERS},
            max_research_steps=self.max_research_steps,
            on_retry_exhausted=self.on_retry_exhausted,
            toolboxes={name: self._toolbox(name, tools) for name in TOOL_USERS},
        )
        for name, predictor in program.named_predictors():
            predictor.lm = model.lm(AgentModel(self._settings(name).model, self._settings(name).temperature))
        if prompts is not None:
            apply_prompt_set(program, prompts)
        return program

    def _toolbox(self, name: str, tools: ToolSettings) -> Any:
        import dspy

        from mas.react import Toolbox

        settings = self._settings(name)
        offered = {tool: dspy.Tool(load_function(self.tools[tool]), name=tool) for tool in settings.tools}
        return Toolbox(offered, settings.max_steps, tools)

    def _settings(self, name: str) -> AgentSettings:
        return self.agents.get(name, AgentSettings())


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"
