"""Which model an agent gets: the system's settings first, then the profile's entry for it, then the profile."""

import pytest

from mas.llm.profiles.model import AgentModel, AgentOverride, check_agents
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.errors import UserError

PROFILE = OpenAIChatModel(
    "base", temperature=0.1, agents={"planner": AgentOverride("strong", 0.2), "critic": AgentOverride(temperature=0.3)}
)


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (AgentModel(), ("openai/base", 0.1)),
        (AgentModel(agent="expert"), ("openai/base", 0.1)),
        (AgentModel(agent="planner"), ("openai/strong", 0.2)),
        (AgentModel(agent="critic"), ("openai/base", 0.3)),
        (AgentModel("mine", None, "planner"), ("openai/mine", 0.2)),
        (AgentModel(None, 0.9, "planner"), ("openai/strong", 0.9)),
        (AgentModel("mine", 0.0, "planner"), ("openai/mine", 0.0)),
    ],
)
def test_the_first_source_that_says_something_counts(agent: AgentModel, expected: tuple[str, float]) -> None:
    lm = PROFILE.create_lm(agent)
    assert (lm.model, lm.kwargs["temperature"]) == expected


def test_agents_that_the_system_does_not_have_are_refused() -> None:
    check_agents(PROFILE, ["planner", "critic", "expert"])
    check_agents(OpenAIChatModel("base"), [])
    with pytest.raises(UserError, match=r"model\.agents names critic, planner, which this system does not have"):
        check_agents(PROFILE, ["agent"])


def test_an_agents_temperature_out_of_range_is_named() -> None:
    with pytest.raises(UserError, match=r"model\.agents\.planner\.temperature=3 is out of range"):
        OpenAIChatModel("base", agents={"planner": AgentOverride(temperature=3)}).check()
