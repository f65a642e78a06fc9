"""The single agent's settings, and how its program is made from them."""

from dataclasses import dataclass, field
from typing import ClassVar

from mas.agents.spec import AgentSettings, AgentSpec, Toolboxes
from mas.system import Program, Resources
from mas.systems.agent_system import AgentSystem

SPECS = (AgentSpec("agent", "mas.systems.single_agent.program.Answer", uses_tools=True),)


@dataclass
class SingleAgentSystem(AgentSystem):
    """Its fields are the keys of `conf/system/single_agent.yaml`."""

    agent_specs: ClassVar = SPECS

    name: str = "single_agent"
    default_prompts: str | None = "single_agent_baseline"
    tools: dict[str, str] = field(default_factory=dict)  # own ones: name → "package.module.function"
    agents: dict[str, AgentSettings] = field(default_factory=dict)

    def make_program(self, toolboxes: Toolboxes, resources: Resources) -> Program:
        from mas.systems.single_agent.program import SingleAgentProgram

        return SingleAgentProgram(SPECS, toolboxes, self.get_settings("agent").retry_limit)
