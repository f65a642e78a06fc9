"""The toy system's agents and defaults."""

from mas.agents.spec import AgentSpec, ModelSettings
from mas.system import Resources
from mas.systems.toy.program import ToyProgram
from mas.systems.toy.system import AGENTS, SPECS, ToySystem


def test_the_agents_are_these_in_the_order_of_their_work() -> None:
    assert (
        AgentSpec("plan", "mas.systems.toy.program.Plan"),
        AgentSpec("solve", "mas.systems.toy.program.Solve"),
        AgentSpec("finalize", "mas.systems.toy.program.Finalize"),
    ) == SPECS
    assert AGENTS == ("plan", "solve", "finalize")
    assert ToySystem.agent_specs is SPECS


def test_a_system_without_settings_has_the_usual_prompts_and_a_program_of_its_agents() -> None:
    system = ToySystem()
    system.check()
    assert (system.name, system.default_prompts, system.agents) == ("toy", "toy_baseline", {})
    assert ToySystem(agents={"plan": ModelSettings("strong")}).model_names() == {"strong"}
    program = system.make_program({}, Resources())
    assert isinstance(program, ToyProgram)
    assert [name for name, _ in program.named_predictors()] == list(AGENTS)
