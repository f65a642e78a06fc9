"""What is asked of vLLM before a run, against a stand-in for its list of models."""

import asyncio

import pytest

from mas.llm.profiles.local_servers import OllamaModel, VllmModel
from mas.llm.profiles.model import AgentOverride
from mas.runtime.errors import UserError
from tests.mas.llm.loopback import Handler, Received, answer, complete_with, serving
from tests.mas.llm.stand_ins import chat, ollama, vllm


def check(handler: Handler, context_tokens: int | None = 8192) -> None:
    with serving(handler) as server:
        VllmModel("org/model", base_url=server.base_url, context_tokens=context_tokens).check()


def test_a_context_that_is_long_enough_or_unknown_passes() -> None:
    check(vllm("org/model", max_model_len=8192))
    check(vllm("org/model", max_model_len=None))
    check(vllm("org/model", max_model_len=10), context_tokens=None)


def test_a_context_that_is_too_short_is_refused_with_the_way_to_set_it() -> None:
    with pytest.raises(UserError, match=r"context of 4096 tokens .*--max-model-len 8192"):
        check(vllm("org/model", max_model_len=4096))


def test_a_model_that_is_not_served_is_refused_with_those_that_are() -> None:
    with pytest.raises(UserError, match=r"serves no model org/model; model\.name must be one of: a, b\."):
        check(vllm("a", "b"))


def test_the_key_goes_with_the_question_and_a_refusal_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(request: Received, writer: asyncio.StreamWriter) -> None:
        await answer(writer, {"error": "no"}, "401 Unauthorized")

    monkeypatch.setenv("SOME_KEY", "sk-12345678")
    with serving(refuse) as server, pytest.raises(UserError, match="HTTP 401"):
        VllmModel("m", base_url=server.base_url, api_key_env="SOME_KEY").check()
    assert server.requests[0].headers["authorization"] == "Bearer sk-12345678"


def refusal(handler: object, **profile: object) -> str:
    with serving(handler) as server, pytest.raises(UserError) as caught:  # type: ignore[arg-type]
        OllamaModel("qwen3", base_url=server.base_url, **{"context_tokens": 8192, **profile}).check()  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_context_that_is_long_enough_passes_without_loading_anything() -> None:
    with serving(ollama("qwen3", context_length=8192)) as server:
        OllamaModel("qwen3", base_url=server.base_url, context_tokens=8192).check()
    assert [request.path for request in server.requests] == ["/api/show", "/api/ps"]


def test_a_model_that_is_not_in_memory_is_loaded_to_learn_its_context() -> None:
    with serving(ollama("qwen3", context_length=8192, loaded=False)) as server:
        OllamaModel("qwen3", base_url=server.base_url, context_tokens=8192).check()
    assert [request.path for request in server.requests] == ["/api/show", "/api/ps", "/api/generate", "/api/ps"]
    assert server.requests[2].body == {"model": "qwen3", "stream": False}, "no prompt: nothing is generated"


def test_a_context_that_ollama_loaded_too_short_is_refused_with_the_way_to_set_it() -> None:
    message = refusal(ollama("qwen3", context_length=4096))
    assert all(part in message for part in ("4096", "model.context_tokens=8192", "OLLAMA_CONTEXT_LENGTH=8192"))


def test_a_context_that_ollama_does_not_tell_is_refused_and_can_be_waived() -> None:
    handler = ollama("qwen3", context_length=None)
    assert "model.context_tokens=null" in refusal(handler)
    with serving(handler) as server:
        OllamaModel("qwen3", base_url=server.base_url, context_tokens=None).check()


def test_a_model_that_ollama_does_not_have_is_named_with_the_command_that_gets_it() -> None:
    assert "ollama pull qwen3" in refusal(ollama("llama3"))


def test_every_model_that_the_profile_names_is_checked() -> None:
    assert "ollama pull big" in refusal(ollama("qwen3"), agents={"planner": AgentOverride("big")})


def test_what_the_model_cannot_do_is_said_before_the_first_question() -> None:
    assert "model.native_tools=false" in refusal(ollama("qwen3", capabilities=()))
    assert "model.takes_images=false" in refusal(ollama("qwen3"), takes_images=True)


def test_another_kind_of_server_at_the_address_is_a_sentence() -> None:
    assert "Ollama has no model" in refusal(chat())
    assert "context" in refusal(complete_with("not an API"))


@pytest.mark.parametrize(
    ("kind", "address"), [(VllmModel, "http://127.0.0.1:8000/v1"), (OllamaModel, "http://127.0.0.1:11434/v1")]
)
def test_a_server_of_ones_own_is_taken_to_be_here_small_and_silent_about_a_cut(
    kind: type[VllmModel | OllamaModel], address: str
) -> None:
    profile = kind("m")
    assert (profile.base_url, profile.max_tokens_field, profile.max_connections) == (address, "max_tokens", 4)
    assert profile.detect_truncation and profile.context_tokens is None


@pytest.mark.parametrize(("kind", "handler"), [(VllmModel, vllm("m")), (OllamaModel, ollama("m"))])
def test_a_setting_out_of_range_is_a_mistake_whatever_the_server_says(
    kind: type[VllmModel | OllamaModel], handler: Handler
) -> None:
    with serving(handler) as server, pytest.raises(UserError, match=r"model\.num_retries=-1 is out of range"):
        kind("m", base_url=server.base_url, num_retries=-1).check()


def test_a_server_that_gives_no_object_or_no_answer_is_a_sentence() -> None:
    async def give_list(request: Received, writer: asyncio.StreamWriter) -> None:
        await answer(writer, [1])  # type: ignore[arg-type]

    with serving(give_list) as server, pytest.raises(UserError) as caught:
        VllmModel("m", base_url=server.base_url).check()
    url = f"{server.base_url}/models"
    assert str(caught.value) == (
        f"the model server's answer at {url} is no JSON object; see whether model.base_url is right."
    )


def test_only_the_models_at_the_own_address_are_looked_for() -> None:
    agents = {"far": AgentOverride("far", base_url="http://127.0.0.1:9/v1"), "near": AgentOverride("near")}
    with serving(vllm("m", "near")) as server:
        VllmModel("m", base_url=f"{server.base_url}/", agents={"near": agents["near"]}).check()
    assert [request.path for request in server.requests] == ["/v1/models"]
    with serving(vllm()) as server, pytest.raises(UserError, match=r"serves no model m; .* one of: none\."):
        VllmModel("m", base_url=server.base_url).check()
