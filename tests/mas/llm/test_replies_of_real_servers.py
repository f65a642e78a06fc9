"""What servers and models were seen to send: thinking in the text, refusals in a 200, overflows in many words."""

from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import (
    AdapterParseError,
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMRateLimitError,
    LMServerError,
)

from mas.agents.chat_adapter import ChatAdapter
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import run_blocking
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedReplyError
from tests.servers.one_answer import server_that_answers

FORM = "[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]"
DRAFT = "[[ ## answer ## ]]\n41\n\nNo."


def ask(body: dict[str, Any], status: int = 200) -> str:
    with server_that_answers(status, body) as base_url:
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


def test_an_answer_may_speak_of_a_tag() -> None:
    assert ask(reply("[[ ## answer ## ]]\nWrite `<think>` first.")) == "Write `<think>` first."


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


@pytest.mark.parametrize(
    ("code", "error"), [(429, LMRateLimitError), (402, LMBillingError), (401, LMAuthError), ("429", LMRateLimitError)]
)
def test_a_refusal_in_a_reply_of_status_200_is_that_refusal(code: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="requests per minute"):
        ask({"error": {"message": "Refused: requests per minute", "code": code}})


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "prompt is too long: 210044 tokens > 200000 maximum"),
        (400, "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."),
        (400, "Input is too long for requested model."),
        (400, "This model's maximum prompt length is 131072 but the request contains 150000 tokens."),
        (400, "The decoder prompt (length 4500) is longer than the maximum model length of 4096."),
        (500, "Context size has been exceeded."),
    ],
)
def test_an_overflow_is_known_by_the_words_of_many_servers(status: int, words: str) -> None:
    with pytest.raises(ContextWindowExceededError):
        ask({"error": {"message": words}}, status)
