"""What every system of our own agents does with its specs and settings: models, toolboxes, prompts, resources."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import dspy
import pytest

from mas.agents.source_digest import digest_program
from mas.agents.spec import AgentSettings, AgentSpec, ModelSettings, Toolboxes
from mas.llm.profiles.model import AgentModel
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.system import Program, Resources
from mas.systems import agent_system
from mas.systems.agent_system import AgentSystem
from mas.systems.toy.system import ToySystem
from mas.tools.settings import ToolSettings

TOOLS = {"calculator": "mas.tools.calculator.calculator", "read_file": "mas.tools.read_file.read_file"}


class Team(dspy.Module):
    """One predictor for each agent."""

    def __init__(self, toolboxes: Toolboxes, resources: Resources) -> None:
        super().__init__()
        self.toolboxes, self.resources = toolboxes, resources
        self.reader = dspy.Predict("question -> notes")
        self.solver = dspy.Predict("notes -> answer")
        self.critic = dspy.Predict("answer -> decision")


@dataclass
class TeamSystem(AgentSystem):
    agent_specs: ClassVar = (
        AgentSpec("reader", uses_tools=True),
        AgentSpec("solver", uses_tools=True),
        AgentSpec("critic"),
    )

    name: str = "team"
    default_prompts: str | None = None
    agents: dict[str, ModelSettings] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=lambda: dict(TOOLS))

    def make_program(self, toolboxes: Toolboxes, resources: Resources) -> Program:
        program: Any = Team(toolboxes, resources)
        return program  # type: ignore[no-any-return]


class Recorder:
    """A model profile whose models are what was asked of it."""

    def create_lm(self, agent: AgentModel) -> AgentModel:
        return agent


def build(system: AgentSystem, prompts: PromptSet | None = None, resources: Resources | None = None) -> Any:
    recorder: Any = Recorder()
    return system.build(recorder, prompts, resources or Resources())


SETTINGS: dict[str, ModelSettings] = {
    "reader": AgentSettings("strong", 0.9, 100, tools=["read_file", "calculator"], max_steps=4, retry_limit=7),
    "critic": ModelSettings(temperature=0.0),
}


def test_each_agent_gets_the_model_of_its_settings_and_the_others_the_runs() -> None:
    program = build(TeamSystem(agents=SETTINGS))
    assert {name: each.lm for name, each in program.named_predictors()} == {
        "reader": AgentModel(name="strong", temperature=0.9, agent="reader", max_tokens=100),
        "solver": AgentModel(name=None, temperature=None, agent="solver", max_tokens=None),
        "critic": AgentModel(name=None, temperature=0.0, agent="critic", max_tokens=None),
    }


def test_every_agent_that_may_use_tools_has_a_toolbox_and_no_other() -> None:
    resources = Resources(ToolSettings(fail_fast=True))
    program = build(TeamSystem(agents=SETTINGS), resources=resources)
    assert program.resources is resources
    boxes = {name: (list(box.tools), box.max_steps, box.resources) for name, box in program.toolboxes.items()}
    assert boxes == {"reader": (["read_file", "calculator"], 4, resources), "solver": ([], 10, resources)}


def test_prompts_are_applied_if_there_are_any() -> None:
    own = {name: each.signature.instructions for name, each in build(TeamSystem()).named_predictors()}
    prompts = PromptSet(
        "mine",
        "team",
        {name: f"You are the {name}." for name in own},
        Path("mine"),
        demos={"solver": [{"notes": "n", "answer": "a"}]},
    )
    program = build(TeamSystem(), prompts)
    assert {name: each.signature.instructions for name, each in program.named_predictors()} == {
        "reader": "You are the reader.",
        "solver": "You are the solver.",
        "critic": "You are the critic.",
    }
    assert [len(each.demos) for _, each in program.named_predictors()] == [0, 1, 0]
    assert "You are" not in "".join(own.values())


def test_settings_of_an_agent_are_its_own_or_the_defaults() -> None:
    system = TeamSystem(agents=SETTINGS)
    assert system.get_settings("reader") is SETTINGS["reader"]
    assert system.get_settings("solver") == AgentSettings()
    assert system.get_settings("critic") == AgentSettings()  # a model alone is no setting of tools and retries


def test_names_of_models_are_those_that_agents_have_of_their_own() -> None:
    agents = {**SETTINGS, "solver": ModelSettings("strong"), "critic": ModelSettings("weak")}
    assert TeamSystem(agents=agents).model_names() == {"strong", "weak"}
    assert TeamSystem(agents={"critic": ModelSettings(), "reader": ModelSettings("")}).model_names() == set()
    assert (TeamSystem().secrets(), TeamSystem().needs_model, TeamSystem().default_prompts) == ((), True, None)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"agents": {"nobody": ModelSettings()}}, "names nobody; the team system's agents are critic, reader, solver."),
        ({"agents": {"critic": AgentSettings(tools=["read_file"])}}, "only reader and solver can use tools."),
        (
            {"agents": SETTINGS, "tools": {"calculator": "x.y"}},
            "names read_file; tools defined in system.tools: calculator.",
        ),
    ],
)
def test_settings_are_checked_against_the_specs_and_tools(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        TeamSystem(**settings).check()
    assert str(caught.value).endswith(sentence)
    TeamSystem(agents=SETTINGS).check()


def test_resources_are_opened_for_the_tools_of_all_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[Any, ...]] = []
    resources = Resources()

    @contextmanager
    def open_tools(*given: Any) -> Any:
        opened.append(given)
        yield resources

    monkeypatch.setattr(agent_system, "open_tools", open_tools)
    settings, said = ToolSettings(), []  # type: ignore[var-annotated]
    agents = {**SETTINGS, "solver": AgentSettings(tools=["calculator"])}
    with TeamSystem(agents=agents).open_resources(settings, said.append) as given:
        assert given is resources
    assert opened == [(settings, {"read_file", "calculator"}, said.append)]


def test_the_digest_is_of_the_module_that_defines_the_system() -> None:
    assert TeamSystem().source_sha256 == digest_program(TeamSystem.__module__)
    assert ToySystem().source_sha256 == digest_program("mas.systems.toy.system")
    assert TeamSystem().source_sha256 != ToySystem().source_sha256
