"""The contract of model profiles, which every file in `conf/model/` fulfils, and which model an agent gets."""

import inspect

import dspy
import pytest
from hydra import compose, initialize_config_dir

from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import build_part
from mas.llm.agent_lm import AgentLM
from mas.llm.profiles.model import AgentModel, AgentOverride, Model, check_agents
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


def build_profile(option: str) -> Model:
    given = ["model.name=openai/any"] if option == "litellm" else ["model.name=any"] if option != "offline" else []
    given += ["model.base_url=http://127.0.0.1:9/v1"] if option == "openai_compatible" else []
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        model: Model = build_part(compose("eval", [f"model={option}", *given]).model, "model")
    return model


@pytest.mark.parametrize("option", sorted(path.stem for path in (PROJECT_ROOT / "conf" / "model").glob("*.yaml")))
def test_every_profile_fulfils_the_contract(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345678")
    profile = build_profile(option)
    methods = {name: member for name, member in vars(Model).items() if inspect.isfunction(member) and name[0] != "_"}

    assert set(methods) == {
        *("check", "secrets", "create_lm", "create_reflection_lm", "list_unpriced", "concurrency_history"),
    }
    for name, member in methods.items():
        found = inspect.signature(getattr(type(profile), name)).parameters.values()
        expected = inspect.signature(member).parameters.values()
        assert [(each.name, each.default) for each in found] == [(each.name, each.default) for each in expected], name
    assert isinstance(profile.name, str)
    assert profile.simulated is (option == "offline")
    assert all(isinstance(secret, str) for secret in profile.secrets())
    assert isinstance(profile.create_lm(AgentModel(agent="planner")), AgentLM)
    assert isinstance(profile.create_reflection_lm(), dspy.BaseLM)
    assert isinstance(profile.list_unpriced(["unheard-of"]), list)
    assert profile.concurrency_history() == []
