"""The profile for LiteLLM's providers; what goes over the wire is in `tests/test_models_on_the_wire.py`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mas.llm.profiles.litellm_model import LiteLLMModel
from mas.llm.profiles.model import AgentOverride
from mas.runtime.errors import UserError

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
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[]", "False"], done.stderr


def test_a_missing_key_of_a_usual_provider_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    with pytest.raises(UserError, match="needs the environment variable ANTHROPIC_API_KEY"):
        LiteLLMModel("anthropic/claude-x").check()
