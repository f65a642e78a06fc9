"""The GAIA program over a scripted model, put together as a run does it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy

from mas.agents.react import Toolbox
from mas.agents.spec import AgentSettings
from mas.systems.gaia.agents import GraphState, Worker, initial_state
from mas.systems.gaia.system import GaiaSystem
from mas.tools.settings import Resources, ToolSettings
from tests.scripted_model import ScriptedModel

LIMITS: dict[Worker, int] = {"planner": 3, "researcher": 5, "expert": 5}  # those of conf/system/gaia.yaml
TOOLS = {"read_file": "mas.tools.read_file.read_file", "calculator": "mas.tools.calculator.calculator"}


def build(
    model: ScriptedModel, limits: dict[Worker, int] = LIMITS, tools: ToolSettings | None = None, **system: Any
) -> Any:
    """The program, with the file reader for the researcher and the calculator for the expert."""
    agents = {
        "planner": AgentSettings(retry_limit=limits["planner"]),
        "researcher": AgentSettings(retry_limit=limits["researcher"], tools=["read_file"]),
        "expert": AgentSettings(retry_limit=limits["expert"], tools=["calculator"]),
    }
    gaia = GaiaSystem(tools=TOOLS, agents=agents, **system)
    gaia.check()
    return gaia.build(model, None, Resources(tools or ToolSettings()))


def toolbox(*functions: Callable[..., Any], **limits: Any) -> Toolbox:
    return Toolbox({function.__name__: dspy.Tool(function) for function in functions}, **limits)


def start(file: str | None = None, limits: dict[Worker, int] = LIMITS) -> GraphState:
    return initial_state("How many?", file, "thread-1", limits)


def without_times(state: Any) -> Any:
    """The final state without what differs between two equal runs."""
    messages = [{**message, "timestamp": ""} for message in state["agent_messages"]]
    return {**state, "agent_messages": messages, "correlation_id": ""}


def csv_file(folder: Path) -> Path:
    path = folder / "towns.csv"
    path.write_text("town,people\nRome,7\nOslo,5\n")
    return path
