"""The toy system's settings, and how its program is made from them."""

from dataclasses import dataclass, field
from typing import ClassVar

from mas.agents.spec import AgentSpec, ModelSettings, Toolboxes
from mas.system import Program, Resources
from mas.systems.agent_system import AgentSystem

SPECS = (
    AgentSpec("plan", "mas.systems.toy.program.Plan"),
    AgentSpec("solve", "mas.systems.toy.program.Solve"),
    AgentSpec("finalize", "mas.systems.toy.program.Finalize"),
)
AGENTS = tuple(spec.name for spec in SPECS)


@dataclass
class ToySystem(AgentSystem):
    """Its fields are the keys of `conf/system/toy.yaml`."""

    agent_specs: ClassVar = SPECS

    name: str = "toy"
    default_prompts: str | None = "toy_baseline"
    agents: dict[str, ModelSettings] = field(default_factory=dict)

    def make_program(self, toolboxes: Toolboxes, resources: Resources) -> Program:
        from mas.systems.toy.program import ToyProgram

        return ToyProgram(SPECS)
