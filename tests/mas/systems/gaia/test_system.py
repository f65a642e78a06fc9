"""The system's settings: what is wrong with them is said before anything is loaded."""

from typing import Any

import pytest

from mas.runtime.errors import UserError
from mas.systems.gaia.agents import AGENTS
from mas.systems.gaia.system import AgentSettings, GaiaSystem
from mas.tools.settings import Resources, ToolSettings
from tests.mas.systems.gaia.building import TOOLS
from tests.scripted_model import ScriptedModel, answering

MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown agent": ({"agents": {"plnner": AgentSettings()}}, ["plnner", *AGENTS]),
    "unknown mode": ({"on_retry_exhausted": "cry"}, ["on_retry_exhausted=cry", "give_up", "best_effort"]),
    "negative research": ({"max_research_steps": -1}, ["max_research_steps=-1"]),
    "no retries": ({"agents": {"expert": AgentSettings(retry_limit=0)}}, ["expert.retry_limit=0", "at least 1"]),
    "too hot": ({"agents": {"expert": AgentSettings(temperature=3)}}, ["expert.temperature=3", "0 to 2"]),
    "no steps": ({"agents": {"researcher": AgentSettings(max_steps=0)}}, ["researcher.max_steps=0", "at least 1"]),
    "tools for the planner": (
        {"tools": TOOLS, "agents": {"planner": AgentSettings(tools=["calculator"])}},
        ["planner.tools", "researcher and expert"],
    ),
    "tools for a critic": (
        {"tools": TOOLS, "agents": {"critic_expert": AgentSettings(tools=["calculator"])}},
        ["critic_expert.tools", "researcher and expert"],
    ),
    "unknown tool": (
        {"tools": TOOLS, "agents": {"expert": AgentSettings(tools=["calculater"])}},
        ["calculater", "calculator, python_repl_tool"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_settings_is_one_sentence(mistake: str) -> None:
    settings, parts = MISTAKES[mistake]
    with pytest.raises(UserError) as caught:
        GaiaSystem(**settings).check()
    message = str(caught.value)
    assert [part for part in parts if part not in message] == []
    assert "\n" not in message and message.endswith(".")


def test_each_agent_may_have_its_own_model_and_temperature() -> None:
    agents = {"planner": AgentSettings(model="strong", temperature=0.9), "expert": AgentSettings(temperature=0.1)}
    program = GaiaSystem(agents=agents).build(ScriptedModel(answering()), None, Resources())
    lms = {name: predictor.lm for name, predictor in program.named_predictors()}
    assert {name: lm.model for name, lm in lms.items()} == {
        **dict.fromkeys(AGENTS, "scripted/scripted"),
        "planner": "scripted/strong",
    }
    assert {name: lm.kwargs["temperature"] for name, lm in lms.items()} == {
        **dict.fromkeys(AGENTS),
        "planner": 0.9,
        "expert": 0.1,
    }


def test_tools_go_to_the_agents_that_name_them_with_their_limits() -> None:
    agents = {
        "researcher": AgentSettings(tools=["read_file"], max_steps=4),
        "expert": AgentSettings(tools=["calculator", "read_file"]),
    }
    settings = ToolSettings(fail_fast=True)
    program = GaiaSystem(tools=TOOLS, agents=agents).build(ScriptedModel(answering()), None, Resources(settings))
    boxes = program.toolboxes
    assert {name: list(box.tools) for name, box in boxes.items()} == {
        "researcher": ["read_file"],
        "expert": ["calculator", "read_file"],
    }
    assert (boxes["researcher"].max_steps, boxes["expert"].max_steps) == (4, 10)
    assert boxes["expert"].resources.settings is settings


def test_a_tool_that_cannot_be_loaded_is_one_sentence() -> None:
    system = GaiaSystem(tools={"x": "mas.no_such.tool"}, agents={"expert": AgentSettings(tools=["x"])})
    with pytest.raises(UserError, match=r"mas\.no_such\.tool cannot be loaded"):
        system.build(ScriptedModel(answering()), None, Resources())
