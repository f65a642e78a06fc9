"""The contract of model profiles, which every file in `conf/model/` fulfils, and which model an agent gets."""

import time
from contextlib import ExitStack

import dspy
import pytest
from hydra import compose, initialize_config_dir

from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import build_part
from mas.llm.agent_lm import AgentLM
from mas.llm.profiles.model import AgentModel, AgentOverride, Model, check_agents
from mas.llm.profiles.openai_chat import OpenAIChatModel, RateSettings
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from tests.mas.llm.loopback import Server, complete_with, serving
from tests.mas.llm.stand_ins import llamacpp, ollama, vllm

PROFILE = OpenAIChatModel(
    "base", temperature=0.1, agents={"planner": AgentOverride("strong", 0.2), "critic": AgentOverride(temperature=0.3)}
)


def ask(profile: OpenAIChatModel, agent: AgentModel) -> None:
    assert run_blocking(profile.create_lm(agent).acall("hi")) == ["hello"]


def test_an_agent_may_have_a_server_a_key_and_a_length_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", "key-of-ours")
    monkeypatch.setenv("THEIR_KEY", "key-of-theirs")
    with serving(complete_with("hello")) as ours, serving(complete_with("hello")) as theirs:
        agents = {
            "planner": AgentOverride("strong", base_url=theirs.base_url, api_key_env="THEIR_KEY", max_tokens=77),
            "critic": AgentOverride(base_url=theirs.base_url),
            "expert": AgentOverride(api_key_env="THEIR_KEY"),
        }
        profile = OpenAIChatModel("base", ours.base_url, "OUR_KEY", agents=agents, max_tokens=99)
        profile.check()
        for agent in ("planner", "critic", "expert", "researcher"):
            ask(profile, AgentModel(agent=agent))
        ask(profile, AgentModel(agent="researcher", max_tokens=55))

    def describe(server: Server) -> list[tuple[object, ...]]:
        keys = [request.headers.get("authorization") for request in server.requests]
        return [(r.body["model"], r.body["max_tokens"], key) for r, key in zip(server.requests, keys, strict=True)]

    assert describe(theirs) == [("strong", 77, "Bearer key-of-theirs"), ("base", 99, None)]
    assert describe(ours) == [
        ("base", 99, "Bearer key-of-theirs"),
        ("base", 99, "Bearer key-of-ours"),
        ("base", 55, "Bearer key-of-ours"),
    ]
    assert profile.secrets() == ["key-of-ours", "key-of-theirs"]


def test_each_server_has_a_rate_limiter_of_its_own_and_the_declared_rate_is_that_of_the_profile() -> None:
    with serving(complete_with("hello")) as ours, serving(complete_with("hello")) as theirs:
        agents = {"planner": AgentOverride(base_url=theirs.base_url)}
        slow = RateSettings(requests_per_minute=1)
        profile = OpenAIChatModel("base", ours.base_url, rate=slow, agents=agents)
        ask(profile, AgentModel())
        for _ in range(3):  # of one a minute, three would not fit into the deadline
            with use_context(SampleContext(SampleKey("q"), deadline=time.monotonic() + 100)):
                ask(profile, AgentModel(agent="planner"))
        assert (len(ours.requests), len(theirs.requests)) == (1, 3)


def test_what_is_missing_at_an_agents_server_is_named_with_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THEIR_KEY", raising=False)
    with pytest.raises(UserError, match=r"variable THEIR_KEY \(model\.agents\.planner\.api_key_env\)"):
        OpenAIChatModel("base", agents={"planner": AgentOverride(api_key_env="THEIR_KEY")}).check()
    with pytest.raises(UserError, match=r"answers at model\.agents\.planner\.base_url=http://127\.0\.0\.1:9"):
        OpenAIChatModel("base", agents={"planner": AgentOverride(base_url="http://127.0.0.1:9/v1")}).check()
    no_room = "max_tokens=500 of planner cannot be sent to o3"
    for tokens, message in ((0, r"model\.agents\.planner\.max_tokens=0 is out of range"), (500, no_room)):
        with pytest.raises(UserError, match=message):
            OpenAIChatModel("base", agents={"planner": AgentOverride("o3", max_tokens=tokens)}).check()
    with pytest.raises(UserError, match=no_room):
        OpenAIChatModel("o3").create_lm(AgentModel(agent="planner", max_tokens=500))


def test_agents_that_the_system_does_not_have_are_refused() -> None:
    check_agents(PROFILE, ["planner", "critic", "expert"])
    check_agents(OpenAIChatModel("base"), [])
    check_agents(OpenAIChatModel("base", agents={"reflection": AgentOverride("strong")}), [])
    with pytest.raises(UserError, match=r"model\.agents names critic, planner, which this system does not have"):
        check_agents(PROFILE, ["agent"])


OPTIONS = sorted(path.stem for path in (PROJECT_ROOT / "conf" / "model").glob("*.yaml"))
NOWHERE = "http://127.0.0.1:9/v1"
LOCAL = ("gguf", "llamacpp", "lmstudio", "openai_compatible", "ollama", "sglang", "vllm")  # no key unless one is named
WRONG = {  # a setting that `check` refuses
    "gguf": "model.slots=0",
    "litellm": "model.name=without-a-provider",
    "llamacpp": "model.context_tokens=9000",  # more than a slot has
    "lmstudio": "model.name=not-loaded",
    "offline": "model.world=nowhere",
    "ollama": "model.native_tools=true",  # of a model that cannot do it
    "sglang": "model.context_tokens=9000",  # more than the server has
    "vllm": "model.context_tokens=9000",  # more than the server has
}
SERVERS = {
    "llamacpp": llamacpp(context_length=8192),
    "lmstudio": vllm("any", max_model_len=None),
    "ollama": ollama("any", context_length=8192, capabilities=("completion",)),
    "sglang": vllm("any", max_model_len=8192),
    "vllm": vllm("any", max_model_len=8192),
}


def build_profile(option: str, *settings: str) -> Model:
    given = ["model.name=openai/any"] if option == "litellm" else ["model.name=any"] if option != "offline" else []
    given += ["model.api_key_env=OPENAI_API_KEY"] if option in LOCAL else []
    given += [f"model.base_url={NOWHERE}"] if option in ("openai_compatible", "gguf") else []
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        model: Model = build_part(compose("eval", [f"model={option}", *given, *settings]).model, "model")
    return model


@pytest.mark.parametrize("option", OPTIONS)
def test_every_profile_fulfils_the_contract(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345678")
    profile = build_profile(option, *([] if option == "offline" else ["model.native_tools=true"]))  # not asked
    assert profile.simulated is (option == "offline")
    assert list(profile.secrets()) == ([] if profile.simulated else ["sk-12345678"])
    assert isinstance(profile.create_lm(AgentModel(agent="planner")), AgentLM)
    assert isinstance(profile.create_reflection_lm(), dspy.BaseLM)
    assert isinstance(profile.list_unpriced(["unheard-of"]), list)
    assert len(profile.list_traffic()) == (0 if profile.simulated else 1)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_wrong_setting_is_found_before_anything_is_spent(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345678")
    wrong = WRONG.get(option, f"model.base_url={NOWHERE}")
    with ExitStack() as stack:
        settings = [wrong]
        if option in SERVERS:
            settings.append(f"model.base_url={stack.enter_context(serving(SERVERS[option])).base_url}")
        profile = build_profile(option, *settings)
        with pytest.raises(UserError):
            profile.check()
    if option not in ("offline", "gguf"):
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(UserError, match="OPENAI_API_KEY"):
            build_profile(option).check()
