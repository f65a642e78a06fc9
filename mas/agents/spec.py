"""Agents of a system as data: their predictors, toolboxes and settings are made from specs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from mas.runtime.errors import UserError
from mas.tools.catalogue import BROWSER, load_function
from mas.tools.settings import Resources

if TYPE_CHECKING:
    from mas.agents.react import Toolbox

Toolboxes = Mapping[str, "Toolbox"]  # by agent; agents without tools are left out


@dataclass
class ModelSettings:
    """Model of one agent."""

    model: str | None = None  # name of the model for this agent; null: the run's
    temperature: float | None = None  # null: the run's
    max_tokens: int | None = None  # per reply; null: the run's


@dataclass
class AgentSettings(ModelSettings):
    """Settings of one agent; its prompt comes with the prompt set."""

    retry_limit: int = 3  # at least 1; the system's file in conf/system/ says what is counted
    tools: list[str] = field(default_factory=list)  # names in `system.tools`; if it can use tools
    max_steps: int = 10  # rounds of tool calls for one request, at least 1; if it can use tools


@dataclass(frozen=True)
class AgentSpec:
    """One agent. Its name is also that of its predictor, of its settings and of its prompt file."""

    name: str
    signature: str = ""  # package.module.Class; empty: the program makes its predictor
    uses_tools: bool = False
    critic: str | None = None  # reviews its work; a rejection counts towards its retry limit


def check_agents(
    system: str, agents: Sequence[AgentSpec], settings: Mapping[str, ModelSettings], tools: Mapping[str, str]
) -> None:
    """Check the settings of a system's agents; UserError: an unknown name, or a value out of range."""
    names = [agent.name for agent in agents]
    if unknown := settings.keys() - set(names):
        raise UserError(
            f"system.agents names {_join_sorted(unknown)}; the {system} system's agents are {_join_sorted(names)}."
        )
    tool_users = [agent.name for agent in agents if agent.uses_tools]
    for name, own in settings.items():
        for key, value in vars(own).items():
            if key in ("retry_limit", "max_steps", "max_tokens") and value is not None and value < 1:
                raise UserError(f"system.agents.{name}.{key}={value} is too small; at least 1 is needed.")
        if own.temperature is not None and not 0 <= own.temperature <= 2:
            raise UserError(f"system.agents.{name}.temperature={own.temperature} is out of range; expected 0 to 2.")
        wanted = list_tools([own])
        if wanted and name not in tool_users:
            raise UserError(f"system.agents.{name}.tools is set, but only {' and '.join(tool_users)} can use tools.")
        if unknown := wanted - set(tools) - {BROWSER}:
            raise UserError(
                f"system.agents.{name}.tools names {_join_sorted(unknown)}; tools defined in system.tools: "
                f"{_join_sorted(tools)}."
            )


def list_tools(settings: Iterable[ModelSettings]) -> set[str]:
    return {name for each in settings if isinstance(each, AgentSettings) for name in each.tools}


def make_toolbox(settings: AgentSettings, tools: Mapping[str, str], resources: Resources) -> "Toolbox":
    """Load an agent's tools from their functions, "package.module.function". UserError: one is missing."""
    import dspy

    from mas.agents.react import Toolbox

    own = [name for name in settings.tools if name != BROWSER]
    offered = {name: dspy.Tool(load_function(tools[name]), name=name) for name in own}
    if BROWSER in settings.tools and BROWSER in resources.services:
        from mas.tools.browser.session import BrowserSession, build_browser_tools

        offered |= build_browser_tools(cast(BrowserSession, resources.services[BROWSER]))
    return Toolbox(offered, settings.max_steps, resources)


def _join_sorted(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
