"""The toy system's settings, and how its program is made from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from mas.agents.spec import AgentSpec, ModelSettings
from mas.system import Program
from mas.systems.agent_system import AgentSystem

if TYPE_CHECKING:
    from mas.agents.react import Toolbox

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

    def make_program(self, toolboxes: "Mapping[str, Toolbox]") -> Program:
        from mas.systems.toy.program import ToyProgram

        return ToyProgram(SPECS)
