"""The GAIA system's settings, and how its program is made from them."""

from dataclasses import dataclass, field
from typing import ClassVar

from mas.agents.spec import AgentSettings, Toolboxes
from mas.runtime.errors import UserError
from mas.system import Program, Resources
from mas.systems.agent_system import AgentSystem
from mas.systems.gaia.agents import SPECS, WORKERS


@dataclass
class GaiaSystem(AgentSystem):
    """Its fields are the keys of `conf/system/gaia.yaml`."""

    agent_specs: ClassVar = SPECS

    name: str = "gaia"
    default_prompts: str | None = "baseline"
    max_research_steps: int = 6  # a plan with more is sent back to the planner
    on_retry_exhausted: str = "give_up"  # a fixed answer, no LM call | best_effort: the finalizer tries
    tools: dict[str, str] = field(default_factory=dict)  # own ones: name → "package.module.function"
    agents: dict[str, AgentSettings] = field(default_factory=dict)

    def check(self) -> None:
        super().check()
        if self.on_retry_exhausted not in ("give_up", "best_effort"):
            raise UserError(
                f"system.on_retry_exhausted={self.on_retry_exhausted} is not known; choose give_up or best_effort."
            )
        if self.max_research_steps < 0:
            raise UserError(f"system.max_research_steps={self.max_research_steps} is negative; 0 means no research.")

    def make_program(self, toolboxes: Toolboxes, resources: Resources) -> Program:
        from mas.systems.gaia.program import GaiaProgram

        retry_limits = {name: self.get_settings(name).retry_limit for name in WORKERS}
        return GaiaProgram(toolboxes, retry_limits, self.max_research_steps, self.on_retry_exhausted)
