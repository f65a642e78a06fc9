"""Which models refuse a temperature, and what becomes of it."""

import pytest
from dspy.clients.lm import _is_openai_reasoning_model

from mas.llm.profiles.model import AgentModel, AgentOverride
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.llm.profiles.profile import is_reasoning_model
from mas.runtime.errors import UserError

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
