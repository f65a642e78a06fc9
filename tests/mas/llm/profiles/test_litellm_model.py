"""The profile for LiteLLM's providers; what goes over the wire is in `tests/test_models_on_the_wire.py`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mas.llm.profiles.litellm_model import USUAL_KEYS, LiteLLMModel
from mas.llm.profiles.model import AgentOverride
from mas.runtime.errors import UserError
from mas.runtime.security.redaction import MIN_SECRET_CHARS

PROJECT = Path(__file__).parents[4]


def test_a_name_without_a_provider_is_a_sentence() -> None:
    for profile in (LiteLLMModel("gpt-4o"), LiteLLMModel("a/b", agents={"planner": AgentOverride("claude")})):
        with pytest.raises(UserError, match="names no provider"):
            profile.check()


def test_sounds_are_refused_at_the_start() -> None:
    with pytest.raises(UserError, match=r"model\.takes_audio"):
        LiteLLMModel("a/b", takes_audio=True).check()


def test_keys_that_litellm_finds_by_itself_are_secrets_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-12345")
    monkeypatch.setenv("MY_KEY", "sk-mine-12345")
    assert LiteLLMModel("anthropic/claude-x").secrets() == ["sk-ant-12345"]
    assert LiteLLMModel("anthropic/claude-x", api_key_env="MY_KEY").secrets() == ["sk-ant-12345", "sk-mine-12345"]
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(UserError, match="MY_KEY"):
        LiteLLMModel("anthropic/claude-x", api_key_env="MY_KEY").check()


def test_litellm_is_not_imported_before_the_first_request() -> None:
    code = (
        "import sys\n"
        "from mas.llm.profiles.litellm_model import LiteLLMModel\n"
        "from mas.llm.profiles.model import AgentModel\n"
        "model = LiteLLMModel('anthropic/claude-x')\n"
        "model.check()\n"
        "print([name for name in ('dspy', 'litellm', 'openai') if name in sys.modules])\n"
        "model.create_lm(AgentModel())\n"
        "print('openai' in sys.modules)  # LiteLLM imports it"
    )
    environment = {**os.environ, "ANTHROPIC_API_KEY": "sk-ant-12345"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines() == ["[]", "False"], done.stderr


def test_a_missing_key_of_a_usual_provider_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    with pytest.raises(UserError, match="needs the environment variable ANTHROPIC_API_KEY"):
        LiteLLMModel("anthropic/claude-x").check()


@pytest.fixture
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in USUAL_KEYS.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)


def refusal(profile: LiteLLMModel) -> str:
    with pytest.raises(UserError) as caught:
        profile.check()
    return str(caught.value)


def missing(name: str, variables: str) -> str:
    return (
        f"model.name={name} needs the environment variable {variables}; set it (or put it into .env), or name another "
        "with model.api_key_env."
    )


@pytest.mark.usefixtures("without_keys")
def test_one_of_a_providers_variables_is_enough_and_an_unknown_provider_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = "COHERE_API_KEY or CO_API_KEY"
    assert refusal(LiteLLMModel("cohere/command")) == missing("cohere/command", both)
    monkeypatch.setenv("CO_API_KEY", "k")
    LiteLLMModel("cohere/command").check()
    LiteLLMModel("bedrock/claude-x").check()


@pytest.mark.usefixtures("without_keys")
def test_the_key_of_each_agents_provider_is_looked_for_unless_its_server_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XAI_API_KEY", "k")
    monkeypatch.setenv("MY_KEY", "k")
    planner = LiteLLMModel("xai/grok", agents={"planner": AgentOverride("groq/fast"), "writer": AgentOverride()})
    assert refusal(planner) == missing("groq/fast", "GROQ_API_KEY")
    LiteLLMModel("xai/grok", agents={"planner": AgentOverride("groq/fast", api_key_env="MY_KEY")}).check()
    LiteLLMModel("xai/grok", agents={"planner": AgentOverride("groq/fast", base_url="http://127.0.0.1:9")}).check()
    LiteLLMModel("groq/fast", api_key_env="MY_KEY").check()
    LiteLLMModel("groq/fast", base_url="http://127.0.0.1:9").check()


@pytest.mark.usefixtures("without_keys")
def test_a_key_is_a_secret_from_the_usual_length_on(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = LiteLLMModel("xai/grok", agents={"planner": AgentOverride("groq/fast")})
    assert profile.secrets() == []
    monkeypatch.setenv("XAI_API_KEY", "x" * MIN_SECRET_CHARS)
    monkeypatch.setenv("GROQ_API_KEY", "g" * (MIN_SECRET_CHARS - 1))
    assert profile.secrets() == ["x" * MIN_SECRET_CHARS]


@pytest.mark.parametrize("name", ["gpt-4o", "/gpt-4o", "openai/", ""])
def test_a_name_is_a_provider_and_a_model(name: str) -> None:
    assert refusal(LiteLLMModel(name)) == (
        f"model.name={name} names no provider; LiteLLM's form is anthropic/claude-sonnet-4-5."
    )


@pytest.mark.usefixtures("without_keys")
def test_the_profiles_own_ranges_are_checked_too() -> None:
    with pytest.raises(UserError, match=r"model\.num_retries=-1 is out of range"):
        LiteLLMModel("bedrock/claude-x", num_retries=-1).check()
