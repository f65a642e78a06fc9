"""What is asked of servers on one's own machine before a run, against stand-ins."""

import pytest

from mas.llm.profiles.local_servers import LlamaCppModel, OllamaModel, VllmModel
from mas.llm.profiles.openai_chat import PROBE, PROBE_TOKENS, OpenAIChatModel
from mas.runtime.errors import UserError
from tests.mas.llm.loopback import Handler, Received, answer, failing, serving
from tests.mas.llm.stand_ins import chat, llamacpp, ollama, vllm
from tests.servers.loopback import Answer


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
    monkeypatch.setenv("SOME_KEY", "sk-12345678")
    with serving(failing(401)) as server, pytest.raises(UserError, match="HTTP 401"):
        VllmModel("m", base_url=server.base_url, api_key_env="SOME_KEY").check()
    assert server.requests[0].headers["authorization"] == "Bearer sk-12345678"


def test_a_server_that_still_loads_its_model_is_said_to_do_so() -> None:
    with serving(failing(503)) as server, pytest.raises(UserError, match="HTTP 503; it may still be loading its model"):
        LlamaCppModel("default", base_url=server.base_url).check()


def refusal(handler: object, **profile: object) -> str:
    with serving(handler) as server, pytest.raises(UserError) as caught:  # type: ignore[arg-type]
        OllamaModel("qwen3", base_url=server.base_url, **{"context_tokens": 8192, **profile}).check()  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_context_that_ollama_loaded_too_short_is_refused_with_the_way_to_set_it() -> None:
    message = refusal(ollama("qwen3", context_length=4096))
    assert all(part in message for part in ("4096", "model.context_tokens=8192", "OLLAMA_CONTEXT_LENGTH=8192"))


def test_a_model_that_ollama_does_not_have_is_named_with_the_command_that_gets_it() -> None:
    assert "ollama pull qwen3" in refusal(ollama("llama3"))


def test_what_the_model_cannot_do_is_said_before_the_first_question() -> None:
    assert "model.native_tools=false" in refusal(ollama("qwen3", capabilities=()), native_tools=True)
    assert "model.takes_images=false" in refusal(ollama("qwen3"), takes_images=True)


def test_llamacpp_is_sent_as_many_requests_as_it_has_slots_and_its_context_is_known() -> None:
    with serving(llamacpp(slots=2, context_length=16384)) as server:
        model = LlamaCppModel("default", base_url=server.base_url)
        model.check()
    assert (model.max_connections, model.context_tokens) == (2, 16384)


def test_a_context_or_server_that_does_not_fit_is_refused() -> None:
    with serving(llamacpp(context_length=4096)) as server, pytest.raises(UserError, match="--ctx-size 16384"):
        LlamaCppModel("default", base_url=server.base_url, context_tokens=8192).check()
    with serving(chat()) as server, pytest.raises(UserError, match="model=openai_compatible"):
        LlamaCppModel("default", base_url=server.base_url).check()


CALL = {"id": "1", "type": "function", "function": {"name": "lookup", "arguments": '{"name": "Oslo"}'}}
IN_TEXT = {"role": "assistant", "content": '{"name": "lookup", "arguments": {"name": "Oslo"}}'}
NO_TOOLS = {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice'}}


@pytest.mark.parametrize(
    ("status", "reply", "natively"),
    [
        (200, {"choices": [{"message": {"role": "assistant", "tool_calls": [CALL]}}]}, True),
        (200, {"choices": [{"message": IN_TEXT}]}, False),
        (400, NO_TOOLS, False),
        (500, NO_TOOLS, False),
        (200, {"choices": []}, False),
    ],
)
def test_the_model_is_asked_once_whether_it_calls_tools_over_the_wire(
    status: int, reply: dict[str, object], natively: bool
) -> None:
    pages = vllm("m")

    def handle(request: Received) -> Answer:
        return answer(reply, status) if request.path.endswith("/chat/completions") else pages(request)

    with serving(handle) as server:
        model = VllmModel("m", base_url=server.base_url)
        model.check()
        assert not [each for each in server.requests if each.path.endswith("/chat/completions")], "nothing is spent yet"
        assert (model.calls_natively, model.calls_natively) == (natively, natively)
        assert VllmModel("m", base_url=server.base_url, native_tools=True).calls_natively
        other = OpenAIChatModel("m", base_url=server.base_url, native_tools="auto")
        assert (other.calls_natively, len(other.describe_server())) == (natively, 1)
    asked = [request.body for request in server.requests if request.path.endswith("/chat/completions")]
    probe = {"model": "m", **PROBE, "temperature": 0.0, "max_tokens": PROBE_TOKENS}
    assert asked == [probe, probe], "once for each on auto"
    said = "over the wire" if natively else "as text; the model or its server does not call natively"
    assert model.describe_server() == [f"up to 4 requests and questions at once (model.max_connections); tools: {said}"]


def test_a_busy_server_is_no_sign_of_a_model_without_calls() -> None:
    with serving(failing(503, message="loading model")) as server, pytest.raises(UserError, match="HTTP 503"):
        VllmModel("m", base_url=server.base_url).describe_server()


@pytest.mark.parametrize("choice", ["no", "fasle"])
def test_another_word_for_native_tools_is_refused(choice: str) -> None:
    with pytest.raises(UserError, match=rf"native_tools={choice} .* true, false or auto"):
        VllmModel("m", native_tools=choice).check()


def test_a_server_behind_a_path_is_asked_where_requests_go() -> None:
    with serving(chat(behind_models={"data": [{"id": "m", "max_model_len": 9000}]})) as server:
        VllmModel("m", base_url=server.base_url.removesuffix("/v1") + "/behind").check()
