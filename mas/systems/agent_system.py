"""Base of the systems whose agents are ours."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from mas.agents.source_digest import digest_program
from mas.agents.spec import AgentSettings, AgentSpec, ModelSettings, Toolboxes, check_agents, list_tools, make_toolbox
from mas.llm.profiles.model import AgentModel, Model
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.system import Program, Resources
from mas.tools.catalogue import TOOLS, open_tools
from mas.tools.settings import ToolSettings


class AgentSystem(ABC):
    """A system is a dataclass that inherits from this class, names its agents and makes its program."""

    agent_specs: ClassVar[Sequence[AgentSpec]]
    needs_model: ClassVar[bool] = True

    name: str
    default_prompts: str | None
    agents: Mapping[str, ModelSettings]  # by name; agents without an entry have the defaults
    tools: Mapping[str, str] = {}  # besides those of `mas.tools.catalogue.TOOLS`

    @abstractmethod
    def make_program(self, toolboxes: Toolboxes, resources: Resources) -> Program:
        """Return the program without models and prompts; `toolboxes` are by agent, if it uses tools."""

    def check(self) -> None:
        check_agents(self.name, self.agent_specs, self.agents, {**TOOLS, **self.tools})

    def secrets(self) -> Collection[str]:
        return ()  # those of tools belong to the tools' settings

    def model_names(self) -> Collection[str]:
        return {settings.model for settings in self.agents.values() if settings.model}

    def open_resources(
        self, settings: ToolSettings, report_missing: Callable[[str], None]
    ) -> AbstractContextManager[Resources]:
        return open_tools(settings, list_tools(self.agents.values()), report_missing)

    def build(self, model: Model, prompts: PromptSet | None, resources: Resources) -> Program:
        program = self.make_program(
            {
                agent.name: make_toolbox(self.get_settings(agent.name), {**TOOLS, **self.tools}, resources)
                for agent in self.agent_specs
                if agent.uses_tools
            },
            resources,
        )
        for name, predictor in program.named_predictors():
            settings = self.agents.get(name, ModelSettings())
            predictor.lm = model.create_lm(AgentModel(settings.model, settings.temperature, name, settings.max_tokens))
        if prompts is not None:
            apply_prompt_set(program, prompts)
        return program

    @property
    def source_sha256(self) -> str:
        """Digest of the sources of the system's package: a resumed run must have the same."""
        return digest_program(type(self).__module__)

    def get_settings(self, agent: str) -> AgentSettings:
        settings = self.agents.get(agent)
        return settings if isinstance(settings, AgentSettings) else AgentSettings()
