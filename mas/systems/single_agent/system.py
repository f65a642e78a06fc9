"""The single agent's settings, and how its program is made from them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import ClassVar

from mas.agents.settings import AgentSettings, check_agent, check_agent_names, tool_names, toolbox
from mas.llm.profiles.model import AgentModel, Model
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.system import Program, Resources
from mas.tools.catalogue import open_tools
from mas.tools.settings import ToolSettings

AGENTS = ("agent",)


@dataclass
class SingleAgentSystem:
    """Its fields are the keys of `conf/system/single_agent.yaml`."""

    needs_model: ClassVar[bool] = True

    name: str = "single_agent"
    default_prompts: str | None = "single_agent_baseline"
    tools: dict[str, str] = field(default_factory=dict)  # name → "package.module.function"
    agents: dict[str, AgentSettings] = field(default_factory=dict)

    @property
    def agent_names(self) -> Sequence[str]:
        return AGENTS

    def check(self) -> None:
        check_agent_names(self.agents, AGENTS, "single_agent")
        check_agent("agent", self._settings, self.tools, AGENTS)

    def secrets(self) -> Sequence[str]:
        return ()  # those of tools are with their settings

    def open_resources(
        self, settings: ToolSettings, report_missing: Callable[[str], None]
    ) -> AbstractContextManager[Resources]:
        return open_tools(settings, tool_names([self._settings]), report_missing)

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        from mas.systems.single_agent.program import SingleAgentProgram

        settings = self._settings
        program = SingleAgentProgram(settings.retry_limit, toolbox(settings, self.tools, resources))
        program.agent.lm = model.create_lm(AgentModel(settings.model, settings.temperature, "agent"))
        if prompts is not None:
            apply_prompt_set(program, prompts)
        return program

    @property
    def _settings(self) -> AgentSettings:
        return self.agents.get("agent", AgentSettings())
