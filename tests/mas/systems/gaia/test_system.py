"""The system's settings: what is wrong with them is said before anything is loaded."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mas.runtime.errors import UserError
from mas.systems.gaia.agents import AGENTS
from mas.systems.gaia.system import ON_RETRY_EXHAUSTED, AgentSettings, GaiaSystem
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import Resources
from tests.mas.systems.gaia.building import TOOLS
from tests.scripted_model import Call, ScriptedModel, answering, in_turn, said

PROJECT = Path(__file__).parents[4]
MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown agent": ({"agents": {"plnner": AgentSettings()}}, ["plnner", *AGENTS]),
    "unknown mode": ({"on_retry_exhausted": "cry"}, ["on_retry_exhausted=cry", "give_up", "best_effort"]),
    "negative research": ({"max_research_steps": -1}, ["max_research_steps=-1"]),
    "no retries": ({"agents": {"expert": AgentSettings(retry_limit=0)}}, ["expert.retry_limit=0", "at least 1"]),
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
        ["calculater", "calculator, read_file"],
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


def test_no_research_at_all_is_allowed() -> None:
    GaiaSystem(max_research_steps=0).check()


def test_the_settings_are_checked_without_loading_anything_heavy() -> None:
    code = (
        "import sys\nfrom mas.systems.gaia.system import GaiaSystem\nGaiaSystem().check()\n"
        "print([name for name in ('dspy', 'langgraph', 'mlflow', 'litellm', 'openai') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, cwd=PROJECT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


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
    settings = ToolSettings(fail_fast=True, max_output_chars=77)
    program = GaiaSystem(tools=TOOLS, agents=agents).build(ScriptedModel(answering()), None, Resources(settings))
    boxes = program.toolboxes
    assert {name: list(box.tools) for name, box in boxes.items()} == {
        "researcher": ["read_file"],
        "expert": ["calculator", "read_file"],
    }
    assert (boxes["researcher"].max_steps, boxes["expert"].max_steps) == (4, 10)
    assert boxes["expert"].limits is settings


def test_a_tool_has_the_name_that_the_configuration_gives_it() -> None:
    expert = AgentSettings(tools=["sums"])
    system = GaiaSystem(tools={"sums": TOOLS["calculator"]}, agents={"expert": expert})
    done = {"expert_answer": "4", "reasoning_trace": "2+2"}
    model = ScriptedModel(answering(expert=in_turn([Call("sums", {"expression": "2+2"})], done)))
    system.build(model, None, Resources())(question="How many?")
    assert said(model.asked("expert")[1])[2] == ("tool", "4")


def test_a_tool_that_cannot_be_loaded_is_one_sentence() -> None:
    system = GaiaSystem(tools={"x": "mas.no_such.tool"}, agents={"expert": AgentSettings(tools=["x"])})
    with pytest.raises(UserError, match=r"mas\.no_such\.tool cannot be loaded"):
        system.build(ScriptedModel(answering()), None, Resources())


def test_a_failing_tool_ends_the_question_if_the_settings_say_so() -> None:
    agents = {"expert": AgentSettings(tools=["calculator"])}
    model = ScriptedModel(answering(expert=[Call("calculator", {"expression": "1/0"})]))
    program = GaiaSystem(tools=TOOLS, agents=agents).build(model, None, Resources(ToolSettings(fail_fast=True)))
    with pytest.raises(Exception, match="division by zero"):
        program(question="How many?")
    assert len(model.asked("expert")) == 1


def test_settings_without_a_configuration_are_these() -> None:
    system = GaiaSystem()
    assert (system.name, system.default_prompts, system.max_research_steps) == ("gaia", "baseline", 6)
    assert (system.on_retry_exhausted, system.tools, system.agents) == ("give_up", {}, {})
    assert ON_RETRY_EXHAUSTED == ("give_up", "best_effort")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"on_retry_exhausted": "cry"},
            "system.on_retry_exhausted=cry is not known; choose one of: give_up, best_effort.",
        ),
        ({"max_research_steps": -1}, "system.max_research_steps=-1 is negative; 0 means no research."),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        GaiaSystem(**settings).check()
    assert str(caught.value) == sentence


@pytest.mark.parametrize("mode", ["give_up", "best_effort"])
def test_the_program_has_the_limits_and_the_mode_of_the_settings(mode: str) -> None:
    agents = {
        "planner": AgentSettings(retry_limit=2),
        "researcher": AgentSettings(retry_limit=4),
        "critic_expert": AgentSettings(retry_limit=9),
    }
    system = GaiaSystem(agents=agents, max_research_steps=5, on_retry_exhausted=mode)
    system.check()
    program: Any = system.make_program({}, Resources())
    assert program.retry_limits == {"planner": 2, "researcher": 4, "expert": 3}
    assert (program.max_research_steps, program.on_retry_exhausted, program.toolboxes) == (5, mode, {})
