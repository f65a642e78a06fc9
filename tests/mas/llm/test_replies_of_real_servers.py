"""What servers and models were seen to send: thinking in the text, refusals in a 200, overflows in many words."""

from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import (
    AdapterParseError,
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMInvalidRequestError,
    LMRateLimitError,
    LMServerError,
    LMTimeoutError,
    LMTransportError,
)

from mas.agents.chat_adapter import ChatAdapter
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import run_blocking
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedReplyError
from tests.servers.loopback import NO_HTTP, Answer, Asked, LoopbackServer, running
from tests.servers.one_answer import server_that_answers

FORM = "[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]"
DRAFT = "[[ ## answer ## ]]\n41\n\nNo."


def ask(body: dict[str, Any], status: int = 200) -> str:
    with server_that_answers(status, body) as base_url:
        return ask_at(base_url)


def ask_at(base_url: str) -> str:
    model = OpenAIChatModel("m", base_url=base_url, api_key_env=None, num_retries=0)
    with dspy.context(lm=model.create_lm(AgentModel()), adapter=ChatAdapter()):
        answer: str = run_blocking(dspy.Predict("question -> answer").acall(question="6 * 7?")).answer
    return answer


def reply(text: str | None, finish_reason: str | None = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text, **message}}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


@pytest.mark.parametrize(
    "text",
    [
        f"<think>\n{DRAFT}\n</think>\n\n{FORM}",
        f"<think>{DRAFT}</think>{FORM}",
        f"{DRAFT}\n</think>\n{FORM}",  # the template wrote the beginning
        f"<think></think>\n{FORM}",
        f"<thinking>{DRAFT}</thinking>\n{FORM}",
        f"<THINK>{DRAFT}</THINK>\n{FORM}",
        f"<think>{DRAFT}</think>\n<think>{DRAFT}</think>\n{FORM}",
        f"{FORM}\n<think>{DRAFT}",  # it began to think again and was done
        "[[ ## answer ## ]]\n<think>is it 41?</think>42\n\n[[ ## completed ## ]]",
        f'<think type="long">{DRAFT}</think>{FORM}',
        f"< think >{DRAFT}</ think >{FORM}",
        f"<think>{DRAFT}<think>x</think>{DRAFT}</think>{FORM}",
        f"[THINK]{DRAFT}[/THINK]{FORM}",  # Magistral
        f"◁think▷{DRAFT}◁/think▷{FORM}",  # Kimi
        f"<seed:think>{DRAFT}</seed:think>{FORM}",
        f"<|begin_of_thought|>{DRAFT}<|end_of_thought|><|begin_of_solution|>{FORM}<|end_of_solution|>",
        f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{FORM}<|return|>",
        f"<unused94>thought\n{DRAFT}<unused95>{FORM}",  # MedGemma
        f"```thinking\n{DRAFT}\n```\n{FORM}",
        '<think>{"answer": "41"}</think>{"answer": "42"}',
    ],
)
def test_thinking_is_no_part_of_the_answer(text: str) -> None:
    assert ask(reply(text)) == "42"


@pytest.mark.parametrize("text", ["[think] of 42", "If 1 < reasoning about it > 0: 42", "`<think>` begins it: 42"])
def test_words_of_an_answer_are_no_thinking(text: str) -> None:
    assert ask(reply(f"[[ ## answer ## ]]\n{text}\n\n[[ ## completed ## ]]")) == text


def test_thinking_in_a_field_of_its_own_is_no_part_of_the_answer() -> None:
    assert ask(reply(FORM, reasoning_content=DRAFT)) == ask(reply(FORM, reasoning=DRAFT)) == "42"


@pytest.mark.parametrize("reason", ["stop", "eos", "eos_token", "end_turn", "STOP", "COMPLETE", "function_call", None])
def test_a_plain_end_has_many_names(reason: str | None) -> None:
    assert ask(reply(FORM, finish_reason=reason)) == "42"


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        *((reason, TruncatedReplyError) for reason in ("length", "max_tokens", "MAX_TOKENS", "model_length")),
        *((reason, RefusedReplyError) for reason in ("content_filter", "SAFETY", "refusal")),
        *((reason, LMServerError) for reason in ("abort", "error", "insufficient_system_resource")),
    ],
)
@pytest.mark.parametrize("calls", [{}, {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}])
def test_a_reply_that_ended_otherwise_is_an_error_and_a_tool_call_in_it_is_not_made(
    reason: str, error: type[Exception], calls: dict[str, Any]
) -> None:
    with pytest.raises(error):
        ask(reply(FORM, finish_reason=reason, **calls))


@pytest.mark.parametrize("text", [f"<think>{DRAFT}</think>", f"<think>{DRAFT}", f"{DRAFT}</think>\n \n"])
def test_a_reply_that_is_only_thinking_is_an_error(text: str) -> None:
    with pytest.raises((EmptyReplyError, AdapterParseError)):
        ask(reply(text))


SAID = "Refused: one question a minute"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        *(
            ({"error": {"message": SAID, "code": code}}, error)
            for code, error in (
                *((429, LMRateLimitError), ("429", LMRateLimitError), ("rate_limit_exceeded", LMRateLimitError)),
                *((402, LMBillingError), ("insufficient_quota", LMBillingError), ("1113", LMBillingError)),
                *((401, LMAuthError), (403, LMAuthError), ("invalid_api_key", LMAuthError)),
                *((400, LMInvalidRequestError), (503, LMServerError), (None, LMServerError), ("x", LMServerError)),
                ("\u00b2", LMServerError),
                *((408, LMTimeoutError), ("context_length_exceeded", ContextWindowExceededError)),
            )
        ),
        ({"error": {"message": SAID, "type": "rate_limit_error"}}, LMRateLimitError),
        ({"error": {"message": SAID, "status": 429}}, LMRateLimitError),
        ({"error": SAID, "code": 429}, LMRateLimitError),
        ({"error": f"{SAID}, too many requests"}, LMRateLimitError),
        ({"error": SAID}, LMServerError),
        ({"object": "error", "message": SAID, "code": 429}, LMRateLimitError),  # FastChat
        ({"object": "error", "message": f"{SAID}; maximum context length", "code": 40303}, ContextWindowExceededError),
        ({"code": 50001, "msg": SAID, "data": None}, LMServerError),
        ({"detail": SAID, "status": 401}, LMAuthError),
        ({"choices": [{"finish_reason": "error", "error": {"code": 429, "message": SAID}}]}, LMRateLimitError),
        ({"choices": [], "error": {"code": 402, "message": SAID}}, LMBillingError),
    ],
)
def test_a_refusal_in_a_reply_of_status_200_is_that_refusal(body: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=SAID):
        ask(body)


def test_a_reply_that_is_nested_too_deeply_is_a_fault_that_may_pass() -> None:
    class DeepServer(LoopbackServer):
        def answer(self, asked: Asked) -> Answer:
            return Answer(b'{"error": ' + b"[" * 100_000, headers={"Content-Type": "application/json"})

    with running(DeepServer()) as server, pytest.raises(LMTransportError, match="recursion"):
        ask_at(f"{server.base_url}/v1")


def test_a_reply_that_is_no_http_is_a_fault_that_may_pass() -> None:
    class OtherServer(LoopbackServer):
        def answer(self, asked: Asked) -> Answer:
            return NO_HTTP

    with running(OtherServer()) as server, pytest.raises(LMTransportError, match="Bad status line"):
        ask_at(f"{server.base_url}/v1")


def test_a_socks_proxy_is_refused_before_it_gets_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(LMConfigurationError, match="SOCKS proxy is not supported"):
        ask_at("http://model.invalid/v1")


@pytest.mark.parametrize("more", [{"error": None}, {"message": "ok"}, {"detail": "ok", "code": 429}])
def test_an_answer_with_fields_named_like_an_error_is_an_answer(more: dict[str, Any]) -> None:
    assert ask({**reply(FORM), **more}) == "42"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."),
        (400, "prompt is too long: 210044 tokens > 200000 maximum"),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        (400, "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."),
        (422, "Input validation error: `inputs` must have less than 1024 tokens. Given: 1070"),
        (400, "Input is too long for requested model."),
        (400, "This model's maximum prompt length is 131072 but the request contains 150000 tokens."),
        (400, "The decoder prompt (length 4500) is longer than the maximum model length of 4096."),
        (500, "Context size has been exceeded."),
        (400, "the request exceeds the available context size. try increasing the context size"),
        (400, "Requested tokens (3000) exceed context window of 2048"),  # llama-cpp-python
        (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),  # SGLang
        (400, "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with "
              "context length of only 4096 tokens"),  # LM Studio
        (400, "prompt too long; exceeded max context length by 3 tokens"),  # Ollama
        (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
        (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4829."),  # Cohere
        (400, "Please reduce the length of the messages or completion."),  # Groq, Cerebras
        (400, "Invalid request: Your request exceeded model token limit: 8192"),  # Moonshot
        (400, "Range of input length should be [1, 30720]"),  # DashScope
        (400, "Prompt exceeds max length"),  # Zhipu
        (400, "invalid params, context window exceeds limit"),  # MiniMax
        (400, "Total tokens of image and text exceed max message tokens"),  # Volcengine
        (400, "prompt token count (5000) cannot exceed 4096."),  # Databricks
        (400, "the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model"),  # watsonx
        (400, "prompt token count of 130000 exceeds the limit of 128000"),  # Copilot
        (413, "Request body too large for gpt-4o model. Max size: 8000 tokens."),  # GitHub Models
        (413, "The estimated number of input and maximum output tokens (8000) exceeded this model context window "
              "limit (6144)."),  # Cloudflare
    ],
)  # fmt: skip
def test_an_overflow_is_known_by_the_words_of_many_servers(status: int, words: str) -> None:
    with pytest.raises(ContextWindowExceededError):
        ask({"error": {"message": words}}, status)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "max_tokens is too large: 50000. This model supports at most 16384 completion tokens"),
        (400, "max_completion_tokens exceeds the limit of this model"),
        (400, "The number of output tokens requested exceeds 8192"),
        (400, "The image exceeds 5 MB"),
        (429, "Request too large for m on tokens per minute (TPM): Limit 6000, Requested 9000"),
        (500, "CUDA error: out of memory"),
    ],
)
def test_other_limits_are_no_overflow_of_the_prompt(status: int, words: str) -> None:
    with pytest.raises(LMError) as raised:
        ask({"error": {"message": words}}, status)
    assert not isinstance(raised.value, ContextWindowExceededError)
