"""Each file in `conf/model/` against a server on loopback: what goes over the wire is what the profile says.

One question goes through the whole GAIA system, as `python eval/run.py model=… model.base_url=…` would send it.
"""

import json
import subprocess
import sys
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import LMUnsupportedFeatureError

from eval.cli.hydra_compat import compose_config
from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import build_part
from mas.llm.profiles.model import AgentModel, check_agents
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.system import agent_names
from mas.tools.settings import Resources
from tests.mas.llm.loopback import Handler, Received, Server, serving
from tests.mas.llm.stand_ins import chat, llamacpp, ollama, vllm
from tests.servers.chat_request import read_request

KEY = "sk-on-the-wire"
QUESTION = "What is 8417 * 36 - 129? Reply with the bare number."
PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="

# option → what the user gives; the names that are sent; whether a key is; how `max_tokens` is called; images
OPENAI = {"key": True, "max_tokens": "max_tokens", "images": True}
LOCAL = {"key": False, "max_tokens": "max_tokens", "images": False}
PROFILES: dict[str, dict[str, Any]] = {
    "gpt-4o-mini": {**OPENAI, "names": {"gpt-4o-mini"}},
    "gpt-4o": {**OPENAI, "names": {"gpt-4o"}},
    "mixed": {**OPENAI, "names": {"gpt-4o", "gpt-4o-mini"}},
    "openai": {**OPENAI, "given": ["model.name=gpt-4.1"], "names": {"gpt-4.1"}},
    "openai_compatible": {**LOCAL, "given": ["model.name=mine"], "names": {"mine"}},
    "ollama": {**LOCAL, "given": ["model.name=qwen3", "model.native_tools=true"], "names": {"qwen3"}},
    "llamacpp": {**LOCAL, "given": ["model.native_tools=true", "model.max_tokens=null"], "names": {"default"}},
    "vllm": {**LOCAL, "given": ["model.name=org/qwen3", "model.native_tools=true"], "names": {"org/qwen3"}},
}
SERVERS: dict[str, Handler] = {"ollama": ollama("qwen3"), "vllm": vllm("org/qwen3"), "llamacpp": llamacpp()}


@pytest.fixture(autouse=True)
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def profile_and_system(option: str, server: Server, *overrides: str) -> tuple[Any, Any]:
    """The two parts of a configuration that this is about, checked as a run checks them."""
    given = PROFILES.get(option, {}).get("given", [])
    url = f"model.base_url={server.base_url}"
    node = compose_config([f"model={option}", *given, url, "system=gaia", *overrides])
    model, system = build_part(node.model, "model"), build_part(node.system, "system")
    check_agents(model, agent_names(system))
    model.check()
    return model, system


def sent(option: str, *overrides: str, handler: Handler | None = None) -> list[Received]:
    """The completions asked for while the system answers one question that needs a tool."""
    with serving(handler or SERVERS.get(option) or chat()) as server:
        model, system = profile_and_system(option, server, *overrides)
        program = system.build(model, None, Resources())
        assert program(question=QUESTION, file=None).final_answer == str(8417 * 36 - 129)
    return [request for request in server.requests if request.path == "/v1/chat/completions"]


def by_agent(requests: list[Received], field: str) -> dict[str, set[Any]]:
    found: dict[str, set[Any]] = {}
    for request in requests:
        role = read_request(json.dumps(request.body).encode()).role
        found.setdefault(role, set()).add(request.body.get(field))
    return found


@pytest.mark.parametrize("option", PROFILES)
def test_model_temperature_tools_and_key_are_those_of_the_profile(option: str) -> None:
    expected = PROFILES[option]
    requests = sent(option)
    assert {request.body["model"] for request in requests} == expected["names"]
    assert {request.body["temperature"] for request in requests} == {0.0}
    assert {request.headers.get("authorization") for request in requests} == {
        f"Bearer {KEY}" if expected["key"] else None
    }
    bodies = [request.body.keys() for request in requests]
    assert {"model", "messages", "temperature", "tools"} in bodies, "the expert's, with its calculator"
    assert set().union(*bodies) == {"model", "messages", "temperature", "tools"}, "and nothing that nobody asked for"


@pytest.mark.parametrize("option", ["gpt-4o", "ollama"])
def test_options_change_what_is_sent(option: str) -> None:
    overrides = ["model.native_tools=false", "model.temperature=null", "model.max_tokens=700"]
    requests = sent(option, *overrides)
    field = PROFILES[option]["max_tokens"]
    assert all(request.body.keys() == {"model", "messages", field} for request in requests)
    assert {request.body[field] for request in requests} == {700}
    assert any(
        "\n\nYour tools are:\n\n- calculator(expression: str)\n" in request.body["messages"][0]["content"]
        for request in requests
    )


def test_an_agents_own_model_temperature_and_length_on_the_command_line_have_the_last_word() -> None:
    own = ["system.agents.planner.model=mine", "system.agents.expert.temperature=0.7"]
    own += ["system.agents.expert.max_tokens=700"]
    requests = sent("mixed", *own, "model.agents.finalizer.temperature=0.2")
    names, temperatures = by_agent(requests, "model"), by_agent(requests, "temperature")
    lengths = by_agent(requests, "max_tokens")
    assert (lengths["expert"], lengths["planner"]) == ({700}, {None})
    assert (names["planner"], names["critic_planner"], names["expert"]) == ({"mine"}, {"gpt-4o"}, {"gpt-4o-mini"})
    assert (temperatures["expert"], temperatures["finalizer"], temperatures["planner"]) == ({0.7}, {0.2}, {0.0})


def test_a_reasoning_model_is_sent_neither_a_temperature_nor_max_tokens_by_its_old_name() -> None:
    requests = sent("openai", "model.name=o4-mini", "model.max_tokens=20000", "system.agents.planner.model=gpt-4.1")
    temperatures = by_agent(requests, "temperature")
    assert (temperatures["expert"], temperatures["planner"]) == ({None}, {0.0})
    reasoning = [request.body for request in requests if request.body["model"] == "o4-mini"]
    assert {body["max_completion_tokens"] for body in reasoning} == {20000}
    assert not any("max_tokens" in body for body in reasoning)


@pytest.mark.parametrize(
    ("option", "handler", "words"),
    [
        ("ollama", ollama("qwen3", context_length=4096), "OLLAMA_CONTEXT_LENGTH=32768"),
        ("vllm", vllm("org/qwen3", max_model_len=4096), "--max-model-len 32768"),
    ],
)
def test_a_local_server_with_a_shorter_context_than_the_profiles_is_refused_or_the_profile_lowered(
    option: str, handler: Handler, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        sent(option, handler=handler)
    assert sent(option, "model.context_tokens=4096", handler=handler)


@pytest.mark.parametrize("option", PROFILES)
def test_images_are_sent_if_the_profile_says_that_the_model_takes_them(option: str) -> None:
    with serving(SERVERS.get(option) or chat()) as server:
        model, _ = profile_and_system(option, server)
        assert model.takes_images is PROFILES[option]["images"]
        predict = dspy.Predict("expert_request, picture: dspy.Image -> expert_answer, reasoning_trace")
        with dspy.context(lm=model.create_lm(AgentModel())):
            call = predict.acall(expert_request="What is 2 + 2?", picture=dspy.Image(PICTURE))
            if model.takes_images:
                run_blocking(call)
            else:
                with pytest.raises(LMUnsupportedFeatureError, match=r"model\.takes_images=false"):
                    run_blocking(call)
    asked = [request for request in server.requests if request.path == "/v1/chat/completions"]
    assert len(asked) == model.takes_images
    for request in asked:
        assert {"type": "image_url", "image_url": {"url": PICTURE}} in request.body["messages"][-1]["content"]


LITELLM = """
import sys
from tests.test_models_on_the_wire import QUESTION, Resources, profile_and_system
from types import SimpleNamespace
from mas.runtime.trace import Trace, record_trace
model, system = profile_and_system("litellm", SimpleNamespace(base_url=sys.argv[1]), *sys.argv[2:])
trace = Trace("thread")
with record_trace(trace):
    print(system.build(model, None, Resources())(question=QUESTION, file=None).final_answer)
print(sum(span.kind == "lm" and span.attributes["output_tokens"] > 0 for span in trace.spans))
"""


@pytest.mark.slow
def test_litellm_sends_what_the_profile_says(clean_environment: dict[str, str]) -> None:
    """In a process of its own: it takes seconds to load, and leaves clients behind."""
    given = ["model.name=openai/mine", "model.api_key_env=SOME_KEY", "model.max_tokens=700"]
    with serving(chat()) as server:
        done = subprocess.run(
            [sys.executable, "-c", LITELLM, server.base_url, *given, "system.agents.planner.model=openai/other"],
            env={**clean_environment, "SOME_KEY": KEY},
            cwd=PROJECT_ROOT,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(8417 * 36 - 129), str(len(server.requests))], "a span for each request"
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    names = by_agent(server.requests, "model")
    assert (names["planner"], names["expert"]) == ({"other"}, {"mine"})
    assert any("tools" in request.body for request in server.requests)
    for request in server.requests:
        assert (request.body["temperature"], request.body["max_completion_tokens"]) == (0.0, 700)
