"""Settings of a profile, the servers and names of its models, and what becomes of a temperature that they refuse."""

from typing import cast

import pytest
from dspy.clients.lm import _is_openai_reasoning_model

from mas.llm.adaptive_pace import Traffic
from mas.llm.agent_lm import AgentLM
from mas.llm.call_policy import CallPolicy, ModelLimits, OptionNames
from mas.llm.engine import AgentEngine
from mas.llm.prices import Price
from mas.llm.profiles.model import AgentModel, AgentOverride
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.llm.profiles.profile import Endpoint, RateSettings, Server, is_reasoning_model
from mas.llm.rate_limiter import RateLimiter
from mas.runtime.errors import UserError
from mas.runtime.security.redaction import MIN_SECRET_CHARS

REASONING = ("o1", "o3-mini", "O4-mini", "o1-pro", "o3-mini-2025-01-31", "gpt-5", "gpt-5-nano", "gpt-5.6-luna", "x/o3")
OTHERS = ("gpt-4o", "gpt-4o-mini", "gpt-5-chat", "gpt-5-chat-latest", "o2", "o3x", "qwen3", "org/gpt-4.1", "gpt-50", "")


@pytest.mark.parametrize("name", [*REASONING, *OTHERS])
def test_the_names_are_those_that_dspy_takes_for_reasoning_models(name: str) -> None:
    assert is_reasoning_model(name) is _is_openai_reasoning_model(name) is (name in REASONING)


def test_the_default_temperature_is_left_out_and_the_one_they_take_is_sent() -> None:
    assert OpenAIChatModel("o3").create_lm(AgentModel()).kwargs["temperature"] is None
    assert OpenAIChatModel("o3", temperature=1.0).create_lm(AgentModel()).kwargs["temperature"] == 1.0
    assert OpenAIChatModel("gpt-4o").create_lm(AgentModel()).kwargs["temperature"] == 0.0


@pytest.mark.parametrize(
    "profile",
    [
        OpenAIChatModel("o3", temperature=0.7),
        OpenAIChatModel("gpt-4o", temperature=0.7, agents={"planner": AgentOverride("o3")}),
        OpenAIChatModel("gpt-4o", agents={"planner": AgentOverride("o3", 0.7)}),
    ],
    ids=["the model's", "an agent's by its model", "an agent's own"],
)
def test_a_temperature_that_somebody_chose_and_that_the_model_refuses_is_a_sentence(profile: OpenAIChatModel) -> None:
    with pytest.raises(UserError, match=r"temperature=0\.7 cannot be sent to o3"):
        profile.check()


def test_it_is_the_same_sentence_for_an_agent_on_the_command_line() -> None:
    with pytest.raises(UserError, match=r"temperature=0\.7 cannot be sent to o3"):
        OpenAIChatModel("gpt-4o").create_lm(AgentModel("o3", 0.7, "planner"))


def test_a_reasoning_model_must_have_room_to_think() -> None:
    with pytest.raises(UserError, match=r"model\.max_tokens=500 is too small for o3"):
        OpenAIChatModel("o3", max_tokens=500).check()
    OpenAIChatModel("o3", max_tokens=16000).create_lm(AgentModel())
    OpenAIChatModel("gpt-4o", max_tokens=500).check()


@pytest.mark.parametrize(
    ("key", "least", "too_little"),
    [
        ("attempt_timeout_seconds", 0.001, 0),
        ("call_deadline_seconds", 0.001, 0),
        ("num_retries", 0, -1),
        ("retry_base_seconds", 0, -0.001),
        ("max_connections", 1, 0),
        ("max_tokens", 1, 0),
        ("context_tokens", 1, 0),
    ],
)
def test_the_edges_of_a_setting_are_accepted_and_what_is_beyond_is_named(
    key: str, least: float, too_little: float
) -> None:
    OpenAIChatModel("any", **{key: least}).check()  # type: ignore[arg-type]
    with pytest.raises(UserError, match=rf"^model\.{key}={too_little} is out of range; expected "):
        OpenAIChatModel("any", **{key: too_little}).check()  # type: ignore[arg-type]


ELSEWHERE = "http://127.0.0.1:9/v1"


def test_a_profile_that_names_nothing_but_a_model_has_these_settings() -> None:
    assert vars(OpenAIChatModel("gpt-4o")) == {
        "name": "gpt-4o",
        "base_url": None,
        "api_key_env": None,
        "native_tools": True,
        "takes_images": False,
        "takes_audio": False,
        "context_tokens": None,
        "detect_truncation": False,
        "temperature": 0.0,
        "max_tokens": None,
        "call_deadline_seconds": 360.0,
        "attempt_timeout_seconds": None,
        "num_retries": 3,
        "retry_base_seconds": 1.0,
        "max_connections": 1000,
        "rate": RateSettings(None, None),
        "prices": {},
        "agents": {},
        "max_tokens_field": "max_completion_tokens",
    }
    assert not OpenAIChatModel("gpt-4o").simulated


@pytest.mark.parametrize("key", ["", "judge"])
@pytest.mark.parametrize(
    ("field", "fitting", "wrong", "expected"),
    [
        ("temperature", 0, -0.001, "0 to 2, or null"),
        ("temperature", 2, 2.001, "0 to 2, or null"),
        ("max_tokens", 1, 0, "at least 1, or null"),
    ],
)
def test_an_agents_settings_have_the_edges_of_the_profiles(
    key: str, field: str, fitting: float, wrong: float, expected: str
) -> None:
    def make(value: float) -> OpenAIChatModel:
        if key:
            return OpenAIChatModel("any", agents={key: AgentOverride(**{field: value})})  # type: ignore[arg-type]
        return OpenAIChatModel("any", **{field: value})  # type: ignore[arg-type]

    make(fitting).check()
    with pytest.raises(UserError) as caught:
        make(wrong).check()
    name = f"model.agents.judge.{field}" if key else f"model.{field}"
    assert str(caught.value) == f"{name}={wrong} is out of range; expected {expected}."


@pytest.mark.parametrize("key", ["requests_per_minute", "tokens_per_minute"])
def test_a_declared_rate_is_more_than_nothing(key: str) -> None:
    OpenAIChatModel("any", rate=RateSettings(**{key: 0.5})).check()
    for wrong in (0, -0.5):
        with pytest.raises(UserError) as caught:
            OpenAIChatModel("any", rate=RateSettings(**{key: wrong})).check()
        assert str(caught.value) == f"model.rate.{key}={wrong} is out of range; expected more than 0, or null."


def test_a_price_may_be_nothing_and_is_never_negative() -> None:
    OpenAIChatModel("any", prices={"any": Price(0, 0, 0, "2026-01-01")}).check()
    with pytest.raises(UserError) as caught:
        OpenAIChatModel("any", prices={"any": Price(0.5, -0.5)}).check()
    assert str(caught.value) == ("model.prices.any.output_usd_per_million=-0.5 is out of range; expected 0 or more.")


def test_room_to_think_is_asked_of_the_option_that_was_given() -> None:
    def refuse(profile: OpenAIChatModel, agent: AgentModel) -> str:
        with pytest.raises(UserError) as caught:
            profile.create_lm(agent)
        return str(caught.value)

    rest = "is too small for o3: a reasoning model's thoughts count as well; give at least 16000, or null."
    own = OpenAIChatModel("o3", agents={"planner": AgentOverride(max_tokens=15_999)})
    assert refuse(OpenAIChatModel("o3", max_tokens=15_999), AgentModel()) == f"model.max_tokens=15999 {rest}"
    assert refuse(own, AgentModel(agent="planner")) == f"model.agents.planner.max_tokens=15999 {rest}"
    assert refuse(own, AgentModel(agent="planner", max_tokens=9)) == f"system.agents.planner.max_tokens=9 {rest}"


def test_a_missing_key_is_named_with_the_option_that_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEY_A", "KEY_B"):
        monkeypatch.delenv(name, raising=False)
    profile = OpenAIChatModel("gpt-4o", api_key_env="KEY_A", agents={"planner": AgentOverride(api_key_env="KEY_B")})
    rest = "(or put it into .env), or try the harness without a key: experiment=offline."
    with pytest.raises(UserError) as caught:
        profile.check()
    assert str(caught.value) == f"model=gpt-4o needs an API key: set the environment variable KEY_A {rest}"
    monkeypatch.setenv("KEY_A", "sk-aaaaaaaa")
    with pytest.raises(UserError) as caught:
        profile.check()
    assert str(caught.value) == (
        "model=gpt-4o needs an API key: set the environment variable KEY_B (model.agents.planner.api_key_env) " + rest
    )
    monkeypatch.setenv("KEY_B", "sk-bbbbbbbb")
    profile.check()


def test_keys_are_secrets_from_a_length_that_no_word_of_a_text_has_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    agents = {"a": AgentOverride(api_key_env="KEY_B"), "b": AgentOverride(api_key_env="KEY_C"), "c": AgentOverride()}
    profile = OpenAIChatModel("any", api_key_env="KEY_A", agents=agents)
    monkeypatch.setenv("KEY_A", "z" * MIN_SECRET_CHARS)
    monkeypatch.setenv("KEY_B", "a" * (MIN_SECRET_CHARS + 1))
    monkeypatch.setenv("KEY_C", "k" * (MIN_SECRET_CHARS - 1))
    assert profile.secrets() == ["a" * (MIN_SECRET_CHARS + 1), "z" * MIN_SECRET_CHARS]
    monkeypatch.setenv("KEY_A", "")
    monkeypatch.delenv("KEY_B")
    assert profile.secrets() == []
    assert [endpoint.read_key() for endpoint in profile.endpoints] == [None, None, "k" * (MIN_SECRET_CHARS - 1)]


def test_an_agents_server_has_its_own_key_or_none_and_never_the_profiles() -> None:
    agents = {
        "far": AgentOverride(base_url=ELSEWHERE),
        "far with a key": AgentOverride(base_url=ELSEWHERE, api_key_env="OTHER"),
        "other key": AgentOverride(api_key_env="OTHER"),
        "same": AgentOverride("gpt-4o-mini"),
    }
    profile = OpenAIChatModel("gpt-4o", base_url="https://a.org/v1", api_key_env="KEY", agents=agents)
    own = Endpoint("https://a.org/v1", "KEY", "model")
    far = Endpoint(ELSEWHERE, None, "model.agents.far")
    far_with_a_key = Endpoint(ELSEWHERE, "OTHER", "model.agents.far with a key")
    other_key = Endpoint("https://a.org/v1", "OTHER", "model.agents.other key")
    assert [profile.get_endpoint(agent) for agent in ("", *agents, "unknown")] == [
        own, far, far_with_a_key, other_key, own, own,
    ]  # fmt: skip
    assert profile.endpoints == [own, far, far_with_a_key, other_key]


def test_the_models_of_a_profile_are_those_that_it_names_and_those_at_its_own_address() -> None:
    agents = {
        "a": AgentOverride("zeta"),
        "b": AgentOverride("alpha", base_url=ELSEWHERE),
        "c": AgentOverride(base_url=ELSEWHERE),
        "d": AgentOverride(temperature=0.5),
    }
    profile = OpenAIChatModel("main", agents=agents, prices={"zeta": Price(1, 1), "new": Price(1, 1)})
    assert profile.names == ["alpha", "main", "zeta"]
    assert profile.local_names == ["main", "zeta"]
    assert profile.list_unpriced() == ["alpha", "main"]
    assert profile.list_unpriced(["new", "newer"]) == ["alpha", "main", "newer"]


def test_the_model_of_an_agent_is_sent_as_the_first_setting_that_is_given_says() -> None:
    profile = OpenAIChatModel(
        "main",
        temperature=0.1,
        max_tokens=100,
        native_tools=False,
        call_deadline_seconds=7.0,
        agents={"planner": AgentOverride("plans", 0.2, 200)},
    )

    def create(agent: AgentModel) -> tuple[object, ...]:
        made = profile.create_lm(agent)
        assert isinstance(made, AgentLM)
        assert (made.native_tools, made.deadline_seconds, made.cache) == (False, 7.0, False)
        return made.model, made.kwargs["temperature"], made.kwargs["max_tokens"]

    assert create(AgentModel()) == ("openai/main", 0.1, 100)
    assert create(AgentModel(agent="planner")) == ("openai/plans", 0.2, 200)
    assert create(AgentModel("given", 0.3, "planner", 300)) == ("openai/given", 0.3, 300)
    assert create(AgentModel(None, None, "planner", 1)) == ("openai/plans", 0.2, 1)


@pytest.mark.parametrize(
    ("temperature", "agents", "sent"),
    [
        (0.0, {}, 1.0),
        (0.5, {}, 1.0),
        (None, {}, None),
        (0.0, {"reflection": AgentOverride(temperature=0.3)}, 0.3),
        (None, {"reflection": AgentOverride(temperature=0.3)}, 0.3),
        (0.0, {"reflection": AgentOverride("thinker")}, 1.0),
        (None, {"reflection": AgentOverride("thinker")}, None),
    ],
)
def test_a_model_that_rewrites_prompts_varies_its_proposals_unless_told_otherwise(
    temperature: float | None, agents: dict[str, AgentOverride], sent: float | None
) -> None:
    profile = OpenAIChatModel("main", temperature=temperature, agents=agents)
    made = profile.create_reflection_lm("given")
    assert (made.model, made.kwargs["temperature"]) == ("openai/given", sent)
    named = "thinker" if agents and agents["reflection"].name else "main"
    assert profile.create_reflection_lm().model == f"openai/{named}"


def read_policy(profile: OpenAIChatModel, agent: AgentModel) -> CallPolicy:
    made = profile.create_lm(agent)
    assert isinstance(made, AgentLM)
    return cast(AgentEngine, made._async_engine_spec).policy


def test_the_policy_of_a_models_calls_is_that_of_its_profile() -> None:
    profile = OpenAIChatModel(
        "main",
        base_url="https://a.org/v1",
        api_key_env="KEY",
        takes_images=True,
        context_tokens=8_000,
        detect_truncation=True,
        num_retries=5,
        retry_base_seconds=0.25,
        attempt_timeout_seconds=9.0,
        rate=RateSettings(tokens_per_minute=600.0),
        prices={"main": Price(1, 2)},
        agents={"far": AgentOverride("other", base_url=ELSEWHERE, api_key_env="OTHER")},
    )
    policy = read_policy(profile, AgentModel())
    assert policy == CallPolicy(
        url="https://a.org/v1",
        limits=ModelLimits("main", True, False, 8_000, True),
        options=OptionNames("model.name", "model.base_url", "model.api_key_env", "KEY"),
        price=Price(1, 2),
        rate_limiter=profile.get_rate_limiter(("https://a.org/v1", "KEY")),
        counts_tokens=True,
        num_retries=5,
        retry_base_seconds=0.25,
        attempt_timeout_seconds=9.0,
        deadline_seconds=policy.deadline_seconds,
    )
    far = read_policy(profile, AgentModel(agent="far"))
    assert (far.url, far.limits.model, far.price) == (ELSEWHERE, "other", None)
    assert far.options == OptionNames(
        "model.agents.far.name", "model.agents.far.base_url", "model.agents.far.api_key_env", "OTHER"
    )
    assert far.rate_limiter is profile.get_rate_limiter((ELSEWHERE, "OTHER")) is not policy.rate_limiter
    assert not read_policy(OpenAIChatModel("main"), AgentModel()).counts_tokens
    assert read_policy(OpenAIChatModel("main"), AgentModel()).url == "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("agent", "option"),
    [
        (AgentModel(), "model.name"),
        (AgentModel(agent="solver"), "model.name"),
        (AgentModel(agent="planner"), "model.agents.planner.name"),
        (AgentModel("x", agent="planner"), "system.agents.planner.model"),
        (AgentModel("x", agent="reflection"), "reflection_model"),
        (AgentModel("x"), "model.name"),
    ],
)
def test_messages_name_the_option_that_gave_the_model(agent: AgentModel, option: str) -> None:
    profile = OpenAIChatModel("main", agents={"planner": AgentOverride("plans"), "solver": AgentOverride()})
    assert read_policy(profile, agent).options.name == option


def test_each_server_has_one_rate_limiter_and_only_the_profiles_own_has_the_declared_rate() -> None:
    profile = OpenAIChatModel(
        "main", base_url=ELSEWHERE, api_key_env="KEY", max_connections=3, rate=RateSettings(60.0, 600.0)
    )
    own, other = profile.get_rate_limiter((ELSEWHERE, "KEY")), profile.get_rate_limiter((ELSEWHERE, None))
    assert profile.get_rate_limiter((ELSEWHERE, "KEY")) is own is not other
    assert (own._rates, own.max_concurrency) == ((60.0, 600.0), 3)
    assert (other._rates, other.max_concurrency) == ((None, None), 3)
    own.answered, other.answered, other.failed = 2, 5, 1
    assert profile.list_traffic() == [Traffic(2, 0, 0, 0, 0, None), Traffic(5, 0, 1, 0, 0, None)]


def test_the_changes_of_all_servers_paces_are_told_in_the_order_of_time() -> None:
    profile = OpenAIChatModel("main")
    assert profile.pace_history() == []
    first, second = profile.get_rate_limiter(("a", None)).policy, profile.get_rate_limiter(("b", None)).policy
    first.begin(100.0)
    first.record_server_error(103.0)
    second.begin(100.0)
    second.record_server_error(101.0)
    assert [change["seconds"] for change in profile.pace_history()] == [0.0, 0.0, 1.0, 3.0]


def test_models_that_are_made_later_ask_the_rate_limiters_that_were_given() -> None:
    profile, asked = OpenAIChatModel("main", api_key_env="KEY"), list[object]()
    limiter = RateLimiter(1)

    def get_limiter(server: Server) -> RateLimiter:
        asked.append(server)
        return limiter

    profile.use_rate_limiters(get_limiter)
    assert read_policy(profile, AgentModel()).rate_limiter is limiter
    assert asked == [(None, "KEY")]
    assert profile.list_traffic() == []
