"""What every system of ours lets its user say about an agent, how that is checked, and the toolbox made of it.

system:
  tools: {calculator: mas.tools.calculator.calculator}
  agents: {expert: {tools: [calculator], max_steps: 5}}

check_agent("expert", settings, tools, tool_users=["researcher", "expert"])
toolbox(settings, tools, Resources()).tools["calculator"]      # a dspy.Tool
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from mas.runtime.errors import UserError
from mas.tools.catalogue import BROWSER, load_function
from mas.tools.tool_context import Resources

if TYPE_CHECKING:
    from mas.agents.react import Toolbox


@dataclass
class AgentSettings:
    """Settings of one agent (docs/explanation/decisions.md 12); its prompt comes with the prompt set."""

    model: str | None = None  # name of the model for this agent; null: the run's
    temperature: float | None = None  # null: the run's
    retry_limit: int = 3  # at least 1; what is counted stands in the system's file in conf/system/
    tools: list[str] = field(default_factory=list)  # names from `system.tools`; agents that can use tools
    max_steps: int = 10  # rounds of tool calls for one request, at least 1; agents that can use tools


def check_agent_names(given: Iterable[str], agents: Collection[str], system: str) -> None:
    """
    Raises:
        UserError: settings for an agent that the system does not have.
    """
    if unknown := set(given) - set(agents):
        raise UserError(f"system.agents names {listed(unknown)}; the {system} system's agents are {listed(agents)}.")


def check_agent(name: str, settings: AgentSettings, tools: Mapping[str, str], tool_users: Collection[str]) -> None:
    """Limits in their range, and tools that exist, for an agent that can use them.

    Raises:
        UserError: the first thing that is wrong.
    """
    for key in ("retry_limit", "max_steps"):
        if getattr(settings, key) < 1:
            raise UserError(f"system.agents.{name}.{key}={getattr(settings, key)} is too small; at least 1 is needed.")
    if settings.temperature is not None and not 0 <= settings.temperature <= 2:
        raise UserError(f"system.agents.{name}.temperature={settings.temperature} is out of range; expected 0 to 2.")
    if settings.tools and name not in tool_users:
        raise UserError(f"system.agents.{name}.tools is set, but only {' and '.join(tool_users)} can use tools.")
    if unknown := set(settings.tools) - set(tools) - {BROWSER}:
        raise UserError(
            f"system.agents.{name}.tools names {listed(unknown)}; tools defined in system.tools: {listed(tools)}."
        )


def tool_names(agents: Iterable[AgentSettings]) -> set[str]:
    """Of all tools that any of them may call."""
    return {name for settings in agents for name in settings.tools}


def toolbox(settings: AgentSettings, tools: Mapping[str, str], resources: Resources) -> "Toolbox":
    """The `mas.agents.react.Toolbox` of one agent.

    Args:
        settings: names the tools.
        tools: name → "package.module.function".
        resources: what is open for the run.

    Raises:
        UserError: a tool cannot be loaded.
    """
    import dspy

    from mas.agents.react import Toolbox

    own = [name for name in settings.tools if name != BROWSER]
    offered = {name: dspy.Tool(load_function(tools[name]), name=name) for name in own}
    if BROWSER in settings.tools and BROWSER in resources.services:
        from mas.tools.browser.session import BrowserSession
        from mas.tools.browser.tools import build_browser_tools

        offered |= build_browser_tools(cast(BrowserSession, resources.services[BROWSER]))
    return Toolbox(offered, settings.max_steps, resources)


def listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
